"""Runs operations on a connection: blocking on Django's own, or on an asynchronous one.

Both go straight to psycopg with server-side binding and prepared statements; Django's cursor wrapper would cost more
than the statement.
"""

import select
from typing import Any, TypeVar

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg.rows import args_row

from locks.engine.async_connection import PLANNER_SETTING
from locks.engine.operations import Operation
from locks.engine.statements import Statement

Result = TypeVar("Result")

# A server that has become read-only was demoted to a standby; the next connection reaches the new primary.
_UNREACHABLE = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction)


class Unavailable(Exception):
    """The database could not be reached or did not answer; whether the statement took effect is not known."""


def run(operation: Operation[Result]) -> Result:
    """On this thread's Django connection, which stays open between requests."""
    try:
        statement, parameters = next(operation)
        while True:
            statement, parameters = operation.send(_execute(statement, parameters))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic


async def run_async(connection: psycopg.AsyncConnection[Any], operation: Operation[Result]) -> Result:
    """On an asynchronous connection in autocommit mode."""
    try:
        statement, parameters = next(operation)
        while True:
            try:
                cursor = psycopg.AsyncRawCursor(connection, row_factory=args_row(statement.row))
                await cursor.execute(statement.sql, parameters, prepare=statement.prepared, binary=True)
                rows = await cursor.fetchall() if _has_rows(cursor) else []
            except _UNREACHABLE as error:
                raise Unavailable(str(error)) from error
            statement, parameters = operation.send(rows)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic


def _execute(statement: Statement[Any], parameters: list[Any]) -> list[Any]:
    django_connection = connections[DEFAULT_DB_ALIAS]
    try:
        connection = django_connection.connection
        if connection is None or (has_pending_input(connection) and not django_connection.in_atomic_block):
            django_connection.close()
            django_connection.connect()
            connection = django_connection.connection
        cursor = psycopg.RawCursor(connection, row_factory=args_row(statement.row))
        # In one round trip: pages and the ORM use this connection too, with the planner's defaults.
        with connection.pipeline():
            connection.execute(f"SET {PLANNER_SETTING}")
            cursor.execute(statement.sql, parameters, prepare=statement.prepared, binary=True)
            connection.execute("RESET enable_seqscan")
        return cursor.fetchall() if _has_rows(cursor) else []
    except _UNREACHABLE as error:
        django_connection.close()
        raise Unavailable(str(error)) from error


def _has_rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> bool:
    """Cheaper than `cursor.description`, which describes every column first."""
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0


def has_pending_input(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """An idle connection has nothing to read unless the server has closed it. The check costs no round trip, and
    keeps the first request after a restart of the database from failing."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
