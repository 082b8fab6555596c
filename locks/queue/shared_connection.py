"""A database connection that many waiting requests share, one statement at a time. Opened when it is needed.

A process of the database can stop answering without ending the connection. To give up waiting for it is not enough:
psycopg would wait for the end of a statement that it has cancelled, and the statement would take effect when the
process goes on, for requests that have left by then. So whoever waits too long hangs up, and the next connection ends
what is left of the last one.
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
from locks.engine.queue import end_backends
from locks.engine.retry import Operation

# So long a statement may take: longer than any of them may wait for a row.
ANSWER_SECONDS = 3.0
# After a failed attempt to connect, so long everybody is told at once.
AWAY_SECONDS = 0.25

Answer = TypeVar("Answer")

_log = structlog.stdlib.get_logger(__name__)


class SharedConnection:
    """`patience` is how long a statement may wait for somebody else's row: whoever comes next waits as long."""

    def __init__(self, *, purpose: str, patience: str) -> None:
        self._purpose = purpose
        self._patience = patience
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._away_until = 0.0
        # Processes of the database that did not answer.
        self._left_behind: list[int] = []
        self._mending: asyncio.Task[None] | None = None

    async def perform(self, operation: Operation[Answer]) -> Answer:
        """Raises Unavailable. An operation that was begun is seen through, whoever has lost interest in it."""
        await self._one_at_a_time.acquire()
        return await asyncio.shield(asyncio.create_task(self._run_shielded(operation)))

    async def close(self) -> None:
        if self._mending is not None:
            await self._mending
        async with self._one_at_a_time:
            await self._close()

    async def _run_shielded(self, operation: Operation[Answer]) -> Answer:
        try:
            connection = await self._ready()
            with contextlib.closing(self._timed(operation, connection)) as timed:
                return await run_async(connection, timed)
        except BaseException:
            await self._close()
            raise
        finally:
            self._one_at_a_time.release()
            if self._left_behind:
                self._mending = asyncio.create_task(self._mend())

    async def _ready(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is not None and has_pending_input(self._connection):
            await self._close()
        if self._connection is None:
            loop = asyncio.get_running_loop()
            if loop.time() < self._away_until:
                raise Unavailable("the database could not be reached a moment ago")
            try:
                connection = self._connection = await connect(purpose=self._purpose)
                with self._alarm(connection):
                    await connection.execute(f"SET lock_timeout = '{self._patience}'")
            except (psycopg.Error, OSError) as error:
                self._away_until = loop.time() + AWAY_SECONDS
                raise Unavailable(str(error)) from error
            if self._left_behind:
                with contextlib.closing(self._timed(end_backends(self._left_behind), connection)) as timed:
                    await run_async(connection, timed)
                self._left_behind = []
        return self._connection

    async def _mend(self) -> None:
        """Without waiting for somebody who needs the connection: what was left behind may go on any time."""
        async with self._one_at_a_time:
            try:
                await self._ready()
            except Unavailable:
                await self._close()

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _timed(self, operation: Operation[Answer], connection: psycopg.AsyncConnection[Any]) -> Operation[Answer]:
        """The same, with an alarm for each of its statements."""
        rows: Any = None
        try:
            while True:
                statement = operation.send(rows)
                with self._alarm(connection):
                    rows = yield statement
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    @contextlib.contextmanager
    def _alarm(self, connection: psycopg.AsyncConnection[Any]) -> Iterator[None]:
        alarm = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._hang_up, connection)
        try:
            yield
        finally:
            alarm.cancel()

    def _hang_up(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Whoever waits for an answer hears that the connection is lost."""
        _log.warning("the database does not answer a waiting request", seconds=ANSWER_SECONDS, desk=self._purpose)
        self._left_behind.append(connection.info.backend_pid)
        with socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
