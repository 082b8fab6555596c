"""The time limit of statements: short for requests, longer for what works on whole tables."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import Error, connection, connections

# Of background tasks that work on a whole table.
MAINTENANCE = "15min"


@contextmanager
def statement_timeout(value: str) -> Iterator[None]:
    """For the statements of this thread; '0' is no limit."""
    _set(connection, value)
    try:
        yield
    finally:
        # Fails only on a connection that is lost or whose transaction is aborted: both undo the change.
        with suppress(Error):
            _reset(connection)


def remove_for_migrations(*, using: str, **_signal: Any) -> None:
    """Receives pre_migrate: a new index on a large table takes its time."""
    _set(connections[using], "0")


def restore_after_migrations(*, using: str, **_signal: Any) -> None:
    """Receives post_migrate."""
    _reset(connections[using])


def _set(connection: Any, value: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET statement_timeout = '{value}'")


def _reset(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("RESET statement_timeout")
