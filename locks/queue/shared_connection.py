"""A database connection that many waiting requests share, one statement at a time. Opened when it is needed.

A backend of the database can stop answering without ending the connection. A timeout alone is not enough: psycopg
would wait for the end of a statement that it has cancelled, and the statement would take effect when the backend
continues, for requests that have left by then. So after the timeout the connection is shut down, and the next
connection ends the backend.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any, TypeVar

import psycopg
import structlog

from locks.engine.async_connection import connect
from locks.engine.execution import Unavailable, has_pending_input, run_async
from locks.engine.handover import end_backends
from locks.engine.retry import Operation

# Longer than any lock_timeout of the statements.
STATEMENT_TIMEOUT = 3.0
# After a failed attempt to connect, requests fail at once for this long.
RECONNECT_BACKOFF = 0.25

Result = TypeVar("Result")

_log = structlog.stdlib.get_logger(__name__)


class SharedConnection:
    """`lock_timeout` is how long a statement may wait for a locked row: the next request waits as long."""

    def __init__(self, *, purpose: str, lock_timeout: str) -> None:
        self._purpose = purpose
        self._lock_timeout = lock_timeout
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._backoff_until = 0.0
        # Process ids of backends that did not answer in time.
        self._orphaned_backends: list[int] = []
        self._reconnecting: asyncio.Task[None] | None = None

    async def run(self, operation: Operation[Result]) -> Result:
        """Raises Unavailable. An operation that has begun is completed even if the caller is cancelled."""
        await self._one_at_a_time.acquire()
        return await asyncio.shield(asyncio.create_task(self._run_shielded(operation)))

    async def close(self) -> None:
        if self._reconnecting is not None:
            await self._reconnecting
        async with self._one_at_a_time:
            await self._close()

    async def _run_shielded(self, operation: Operation[Result]) -> Result:
        try:
            connection = await self._ready()
            with contextlib.closing(self._with_timeouts(operation, connection)) as timed:
                return await run_async(connection, timed)
        except BaseException:
            await self._close()
            raise
        finally:
            self._one_at_a_time.release()
            if self._orphaned_backends:
                self._reconnecting = asyncio.create_task(self._reconnect())

    async def _ready(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is not None and has_pending_input(self._connection):
            await self._close()
        if self._connection is None:
            loop = asyncio.get_running_loop()
            if loop.time() < self._backoff_until:
                raise Unavailable("the database could not be reached a moment ago")
            try:
                connection = self._connection = await connect(purpose=self._purpose)
                with self._timeout(connection):
                    await connection.execute(f"SET lock_timeout = '{self._lock_timeout}'")
            except (psycopg.Error, OSError) as error:
                self._backoff_until = loop.time() + RECONNECT_BACKOFF
                raise Unavailable(str(error)) from error
            if self._orphaned_backends:
                with contextlib.closing(
                    self._with_timeouts(end_backends(self._orphaned_backends), connection)
                ) as timed:
                    await run_async(connection, timed)
                self._orphaned_backends = []
        return self._connection

    async def _reconnect(self) -> None:
        """At once rather than with the next request: an orphaned backend may continue at any time."""
        async with self._one_at_a_time:
            try:
                await self._ready()
            except Unavailable:
                await self._close()

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _with_timeouts(
        self, operation: Operation[Result], connection: psycopg.AsyncConnection[Any]
    ) -> Operation[Result]:
        """The same operation, with a timeout for each of its statements."""
        rows: Any = None
        try:
            while True:
                statement = operation.send(rows)
                with self._timeout(connection):
                    rows = yield statement
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic

    @contextlib.contextmanager
    def _timeout(self, connection: psycopg.AsyncConnection[Any]) -> Iterator[None]:
        timer = asyncio.get_running_loop().call_later(STATEMENT_TIMEOUT, self._shut_down, connection)
        try:
            yield
        finally:
            timer.cancel()

    def _shut_down(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """The statement in progress fails as on a lost connection."""
        _log.warning("the database does not answer a waiting request", seconds=STATEMENT_TIMEOUT, purpose=self._purpose)
        self._orphaned_backends.append(connection.info.backend_pid)
        with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)
