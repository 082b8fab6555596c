"""Lets time pass without sleeping: every lease of the database moves into the past."""

from django.db import connection


def pass_seconds(seconds: float, *, space_id: int | None = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE octo_lock SET
                acquired_at = acquired_at - make_interval(secs => %(seconds)s),
                renewed_at = renewed_at - make_interval(secs => %(seconds)s),
                expires_at = expires_at - make_interval(secs => %(seconds)s),
                sweep_at = sweep_at - make_interval(secs => %(seconds)s),
                available_at = available_at - make_interval(secs => %(seconds)s)
            WHERE space_id = coalesce(%(space_id)s, space_id)
            """,
            {"seconds": seconds, "space_id": space_id},
        )
