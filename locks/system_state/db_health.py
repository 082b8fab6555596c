"""Checks of this thread's database connection that never wait long."""

import select
import time

import psycopg
from django.db import connection
from django.db.utils import OperationalError
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn


def drop_dead_connection() -> None:
    """Closes a connection that the server ended while the thread was idle, so that the next query opens a new one
    instead of failing. Costs no round trip: it only reads what has arrived."""
    raw = connection.connection
    if raw is None:
        return
    try:
        # Twice: the server may have sent an error message before it closed the connection.
        raw.pgconn.consume_input()
        raw.pgconn.consume_input()
    except psycopg.OperationalError:
        connection.close()


def check_connection(*, seconds: float) -> None:
    """Returns if the database answers a query within that time, plus the connect timeout if it has to connect. Raises
    OperationalError otherwise. A statement timeout on the server does not help when the server is frozen or
    unreachable, so the socket is polled here."""
    if connection.connection is not None:
        try:
            _select_one(seconds=seconds)
            return
        except OperationalError:
            # Only this connection may be broken: a new one decides.
            connection.close()
    connection.ensure_connection()
    _select_one(seconds=seconds)


def _select_one(*, seconds: float) -> None:
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
