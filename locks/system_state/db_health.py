"""Checks of this thread's database connection that never wait long."""

import psycopg
from django.db import connection
from django.db.utils import OperationalError

from locks.postgresql.connections import is_stale


def drop_dead_connection() -> None:
    """Closes a connection that the server ended or left unanswered while the thread was idle, so that the next query
    opens a new one instead of failing. At most once a second it costs a round trip, which confirms that the server is
    still the primary."""
    raw = connection.connection
    if raw is None:
        return
    if is_stale(raw):
        connection.close()
        return
    if not raw.is_confirmed:
        try:
            raw.confirm_primary()
        except psycopg.OperationalError:
            connection.close()


def check_connection(*, seconds: float) -> None:
    """Returns if the primary answers within that time, plus the connect timeout if it has to connect. Raises
    OperationalError otherwise."""
    if connection.connection is not None:
        try:
            _confirm(seconds=seconds)
            return
        except OperationalError:
            # Only this connection may be broken: a new one decides.
            connection.close()
    connection.ensure_connection()
    _confirm(seconds=seconds)


def _confirm(*, seconds: float) -> None:
    raw = connection.connection
    limit, raw.deadline_seconds = raw.deadline_seconds, seconds
    try:
        with connection.wrap_database_errors:
            raw.confirm_primary()
    finally:
        raw.deadline_seconds = limit
