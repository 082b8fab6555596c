"""Lets time pass without sleeping: every lease and session of the database moves into the past."""

from django.db import connection


def pass_seconds(seconds: float, *, space_id: int | None = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE octo_lock SET
                acquired_at = acquired_at - make_interval(secs => %(seconds)s),
                renewed_at = renewed_at - make_interval(secs => %(seconds)s),
                expires_at = expires_at - make_interval(secs => %(seconds)s),
                next_sweep_at = next_sweep_at - make_interval(secs => %(seconds)s),
                available_at = available_at - make_interval(secs => %(seconds)s)
            WHERE space_id = coalesce(%(space_id)s, space_id)
            """,
            {"seconds": seconds, "space_id": space_id},
        )
        cursor.execute(
            """
            UPDATE octo_session SET
                created_at = created_at - make_interval(secs => %(seconds)s),
                last_keepalive_at = last_keepalive_at - make_interval(secs => %(seconds)s),
                expires_at = expires_at - make_interval(secs => %(seconds)s),
                ended_at = ended_at - make_interval(secs => %(seconds)s),
                next_sweep_at = next_sweep_at - make_interval(secs => %(seconds)s)
            WHERE space_id = coalesce(%(space_id)s, space_id)
            """,
            {"seconds": seconds, "space_id": space_id},
        )
