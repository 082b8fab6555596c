"""Asynchronous connections to the database Django uses, with the same options."""

import psycopg
from django.conf import settings
from psycopg.conninfo import make_conninfo

from locks.postgresql.connections import AsyncConnection

# Prepared statements are planned once, often while there are few locks. A plan that scans the whole table would be
# kept, and be slow, when a thousand more are taken in the minute before the table is analysed.
PLANNER_SETTING = "enable_seqscan=off"


async def connect(
    *, purpose: str, lock_timeout: str | None = None, deadline_seconds: float | None = None
) -> AsyncConnection:
    """To the primary, in autocommit mode, with server-side binding. The purpose is part of the application name in
    pg_stat_activity. The deadline is that of each statement; without it, the limit of the process.
    Raises psycopg.Error."""
    connection = await AsyncConnection.connect(
        _conninfo(purpose),
        autocommit=True,
        prepare_threshold=1 if settings.PREPARED_STATEMENTS else None,
        cursor_factory=psycopg.AsyncRawCursor,
    )
    connection.deadline_seconds = deadline_seconds
    await connection.confirm_primary()
    if lock_timeout is not None and settings.PREPARED_STATEMENTS:
        try:
            await connection.execute(f"SET lock_timeout = '{lock_timeout}'".encode())
        except BaseException:
            await connection.close()
            raise
    connection.lock_timeout = lock_timeout
    return connection


def _conninfo(purpose: str) -> str:
    database = settings.DATABASES["default"]
    parameters = {
        "dbname": database["NAME"], "user": database["USER"], "password": database["PASSWORD"],
        "host": database["HOST"], "port": database["PORT"],
    }  # fmt: skip
    options = {name: value for name, value in database["OPTIONS"].items() if name != "prepare_threshold"}
    if settings.PREPARED_STATEMENTS:
        options["options"] = f"{options.get('options', '')} -c {PLANNER_SETTING}".strip()
    given = {name: value for name, value in parameters.items() if value}
    return make_conninfo(**{**options, **given, "application_name": f"octoadmin {purpose}"})
