"""Readers in commit order stop before the oldest transaction in progress, and other tests on the server have some."""

import os

import psycopg

from tests.polling import until


def wait_for_open_transactions() -> None:
    """Returns when every transaction that is in progress now has ended, in all databases."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        (goal,) = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()
        ended = "SELECT pg_snapshot_xmin(pg_current_snapshot()) >= %s::xid8"
        until(lambda: connection.execute(ended, [goal]).fetchone() == (True,), timeout=120)
