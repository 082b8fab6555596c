"""Recognises a connection pooler that gives each transaction another connection of the database.

Through one, a prepared statement or a setting of one request would be that of another: locks would be released that no
client has asked to release.
"""

import secrets

import psycopg
from psycopg.conninfo import make_conninfo

ROUNDS = 3
CONNECT_SECONDS = 5

MESSAGE = (
    "DATABASE_URL names a connection pooler in transaction mode (PgBouncer's pool_mode = transaction), where prepared "
    "statements and settings of one request would be used for another. Set pool_mode = session, or connect to "
    "PostgreSQL or haproxy directly; or set OCTO_PREPARED_STATEMENTS=0, which works with it and is slower."
)
# Compared by the server: psycopg returns text of a database without an encoding as bytes.
_CHECK = "SELECT current_setting('octoadmin.pooler_check', true) = %s, pg_backend_pid()"


def is_transaction_pooler(url: str) -> bool:
    """Raises psycopg.Error."""
    # Without `options`, which PgBouncer refuses.
    conninfo = make_conninfo(url, connect_timeout=CONNECT_SECONDS, options="")
    with (
        psycopg.connect(conninfo, autocommit=True, prepare_threshold=None) as first,
        psycopg.connect(conninfo, autocommit=True, prepare_threshold=None) as second,
    ):
        return any(_differs(first, second) for _round in range(ROUNDS))


def _differs(first: psycopg.Connection, second: psycopg.Connection) -> bool:
    """A pooler lends the second connection what the first one has just used, or the first one another backend while
    the second keeps its own in a transaction."""
    mark = secrets.token_hex(8)
    first.execute("SELECT set_config('octoadmin.pooler_check', %s, false)", [mark])
    backend = first.execute("SELECT pg_backend_pid()").fetchone()
    with second.transaction():
        found = second.execute(_CHECK, [mark]).fetchone()
        if found is None or found[0] or found[1:] == backend:
            return True
        again = first.execute(_CHECK, [mark]).fetchone()
        return again is None or not again[0] or again[1:] != backend
