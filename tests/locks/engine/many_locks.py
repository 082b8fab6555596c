"""Fills a space with names, `many/000001` and so on, faster than acquiring them would."""

from django.db import connection


def hold(space_id: int, count: int) -> None:
    """Live locks of the space's first token: adds as many as are missing until there are `count`."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO octo_lock (
                space_id, name, fencing_token, lease_id, holder_id, token_id, owner, ttl_seconds, acquired_at,
                renewed_at, expires_at, renewals, next_sweep_at, lock_delay_seconds
            )
            SELECT
                token.space_id, 'many/' || to_char(number, 'FM000000'), 1, gen_random_uuid(),
                octo_holder_id(token.public_id, NULL), token.id, 'many', 3600, now(), now(),
                now() + interval '1 hour', 0, now() + interval '1 hour', 0
            FROM generate_series(1, %s) AS number
            CROSS JOIN (SELECT * FROM octo_token WHERE space_id = %s ORDER BY id LIMIT 1) AS token
            ORDER BY random()
            ON CONFLICT (space_id, name) DO NOTHING
            """,
            [count, space_id],
        )


def leave_idle(space_id: int, count: int) -> None:
    """Names that were used once, `many/000001x` and so on."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO octo_lock (space_id, name, fencing_token, lock_delay_seconds)
            SELECT %s, 'many/' || to_char(number, 'FM000000') || 'x', 1, 0 FROM generate_series(1, %s) AS number
            """,
            [space_id, count],
        )
