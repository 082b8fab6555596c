"""Runs operations on a connection: blocking on Django's own, or on an asynchronous one.

Both go straight to psycopg with server-side binding and prepared statements; Django's cursor wrapper would cost more
than the statement.
"""

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg.rows import args_row

from locks.engine.async_connection import PLANNER_SETTING
from locks.engine.database_clock import database_clock
from locks.engine.operations import Operation
from locks.engine.statements import Statement
from locks.engine.verdicts import DENIES_A_LEASE, PROVES_A_WRITE
from locks.postgresql.connections import AnyConnection, AsyncConnection, is_stale
from locks.tracing import traced

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
            rows = traced(statement.name, _execute, statement, parameters)
            statement, parameters = operation.send(rows)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic


async def run_async(connection: AsyncConnection, operation: Operation[Result]) -> Result:
    """On an asynchronous connection in autocommit mode."""
    try:
        statement, parameters = next(operation)
        while True:
            try:
                sent_at = time.monotonic()
                cursor = psycopg.AsyncRawCursor(connection, row_factory=args_row(statement.row))
                if settings.PREPARED_STATEMENTS or connection.lock_timeout is None:
                    await cursor.execute(statement.sql, parameters, prepare=statement.prepared, binary=True)
                else:
                    # The setting lasts as long as the transaction, and all of it is one round trip.
                    async with connection.pipeline(), connection.transaction():
                        await connection.execute(f"SET LOCAL lock_timeout = '{connection.lock_timeout}'".encode())
                        await cursor.execute(statement.sql, parameters, binary=True)
                rows = await cursor.fetchall() if _has_rows(cursor) else []
                if rows and (now := getattr(rows[0], "now", None)) is not None:
                    database_clock.observe(now, sent_at=sent_at, received_at=time.monotonic())
                if _is_unconfirmed(connection, rows, sent_at=sent_at):
                    await connection.confirm_primary()
            except _UNREACHABLE as error:
                raise Unavailable(str(error)) from error
            statement, parameters = operation.send(rows)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic


def _execute(statement: Statement[Any], parameters: list[Any]) -> list[Any]:
    django_connection = connections[DEFAULT_DB_ALIAS]
    try:
        connection = django_connection.connection
        if connection is None or (is_stale(connection) and not django_connection.in_atomic_block):
            django_connection.close()
            django_connection.connect()
            connection = django_connection.connection
        sent_at = time.monotonic()
        cursor = psycopg.RawCursor(connection, row_factory=args_row(statement.row))
        if settings.PREPARED_STATEMENTS:
            # In one round trip: pages and the ORM use this connection too, with the planner's defaults.
            with connection.pipeline():
                connection.execute(f"SET {PLANNER_SETTING}")
                cursor.execute(statement.sql, parameters, prepare=statement.prepared, binary=True)
                connection.execute("RESET enable_seqscan")
        else:
            with connection.pipeline(), connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '{settings.LOCK_TIMEOUT}'")
                cursor.execute(statement.sql, parameters, binary=True)
        rows = cursor.fetchall() if _has_rows(cursor) else []
        # The commit of a transaction is its confirmation.
        if not django_connection.in_atomic_block and _is_unconfirmed(connection, rows, sent_at=sent_at):
            connection.confirm_primary()
        return rows
    except _UNREACHABLE as error:
        django_connection.close()
        raise Unavailable(str(error)) from error


def _has_rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> bool:
    """Cheaper than `cursor.description`, which describes every column first."""
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0


def _is_unconfirmed(connection: AnyConnection, rows: Sequence[Any], *, sent_at: float) -> bool:
    """Whether the answer may come from a server that another one has replaced as the primary; see confirm_primary.sql.

    A write that was committed a moment ago is proof enough for what only informs (`held`, a list). A client that is
    told that its lease or its session is over stops its work, so that needs a write after it, each time."""
    verdicts = {getattr(row, "verdict", None) for row in rows}
    if not verdicts.isdisjoint(PROVES_A_WRITE):
        connection.confirmed_at = sent_at
    return not (connection.is_confirmed and verdicts.isdisjoint(DENIES_A_LEASE))
