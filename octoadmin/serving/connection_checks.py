"""Whether this thread's database connection is alive, found out without ever waiting long."""

import select
import time

import psycopg
from django.db import connection
from django.db.utils import OperationalError
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn


def drop_dead_connection() -> None:
    """Closes a connection that the server has ended while the thread was idle, so that the next query opens
    a new one instead of failing. Costs no round trip: it only looks at what has arrived."""
    raw = connection.connection
    if raw is None:
        return
    try:
        # Twice, because the server's last words may stand before the end.
        raw.pgconn.consume_input()
        raw.pgconn.consume_input()
    except psycopg.OperationalError:
        connection.close()


def ask_database(*, seconds: float) -> None:
    """Returns if the database answers a query within that time (and the connect timeout, if need be to
    connect). Raises OperationalError otherwise. A timeout set on the server would not help when the server
    is stopped or unreachable, so we watch the socket ourselves."""
    if connection.connection is not None:
        try:
            _ask(seconds=seconds)
            return
        except OperationalError:
            # It says something about this connection only; a new one tells about the database.
            connection.close()
    connection.ensure_connection()
    _ask(seconds=seconds)


def _ask(*, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    with connection.wrap_database_errors:
        pgconn = connection.connection.pgconn
        pgconn.send_query(b"SELECT 1")
        pgconn.flush()
        while pgconn.is_busy():
            if not _readable(pgconn, seconds=max(0.0, deadline - time.monotonic())):
                connection.close()
                raise OperationalError(f"the database did not answer within {seconds:g} s")
            pgconn.consume_input()
        while (result := pgconn.get_result()) is not None:
            if result.status != ExecStatus.TUPLES_OK:
                raise OperationalError(result.get_error_message())


def _readable(pgconn: PGconn, *, seconds: float) -> bool:
    # Not select.select, which fails for file descriptors above 1023.
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
