"""Asynchronous connections to the database Django uses, with the same options."""

from typing import Any

import psycopg
from django.conf import settings
from psycopg.conninfo import make_conninfo

# Prepared statements are planned once, often while there are few locks. A plan that scans the whole table would be
# kept, and be slow, when a thousand more are taken in the minute before the table is analysed.
PLANNER_SETTING = "enable_seqscan=off"


async def connect(*, purpose: str) -> psycopg.AsyncConnection[Any]:
    """In autocommit mode, with server-side binding. The purpose is part of the application name in pg_stat_activity."""
    return await psycopg.AsyncConnection.connect(
        _conninfo(purpose), autocommit=True, prepare_threshold=1, cursor_factory=psycopg.AsyncRawCursor
    )


def _conninfo(purpose: str) -> str:
    database = settings.DATABASES["default"]
    parameters = {
        "dbname": database["NAME"], "user": database["USER"], "password": database["PASSWORD"],
        "host": database["HOST"], "port": database["PORT"],
    }  # fmt: skip
    options = {name: value for name, value in database["OPTIONS"].items() if name != "prepare_threshold"}
    options["options"] = f"{options.get('options', '')} -c {PLANNER_SETTING}".strip()
    given = {name: value for name, value in parameters.items() if value}
    return make_conninfo(**{**options, **given, "application_name": f"octoadmin {purpose}"})
