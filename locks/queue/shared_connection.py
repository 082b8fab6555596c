"""A database connection that many waiting requests share, one statement at a time. Opened when it is needed.

A backend of the database can stop answering without ending the connection. The connection is closed after its deadline,
but the statement would take effect when the backend continues, for requests that have left by then. So the next
connection ends the backend.
"""

import asyncio
from typing import TypeVar

import psycopg
import structlog
from django.conf import settings

from locks.engine.async_connection import connect
from locks.engine.execution import Unavailable, run_async
from locks.engine.handover import end_backends
from locks.engine.retry import Operation
from locks.postgresql.connections import AsyncConnection, DeadlinePassed, is_stale

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
        self._connection: AsyncConnection | None = None
        self._backend = 0
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
        """Waits for the statement under way. Orphaned backends are ended here: a `_reconnect` that runs afterwards
        would open a connection again."""
        async with self._one_at_a_time:
            await self._end_orphans()
            if self._reconnecting is not None:
                self._reconnecting.cancel()
            await self._close()

    async def _run_shielded(self, operation: Operation[Result]) -> Result:
        try:
            connection = await self._ready()
            connection.deadline_seconds = STATEMENT_TIMEOUT
            return await run_async(connection, operation)
        except BaseException as error:
            if isinstance(error.__cause__, DeadlinePassed):
                self._note_orphan()
            await self._close()
            raise
        finally:
            self._one_at_a_time.release()
            if self._orphaned_backends:
                self._reconnecting = asyncio.create_task(self._reconnect())

    async def _ready(self) -> AsyncConnection:
        if self._connection is not None and is_stale(self._connection):
            await self._close()
        if self._connection is None:
            loop = asyncio.get_running_loop()
            if loop.time() < self._backoff_until:
                raise Unavailable("the database could not be reached a moment ago")
            try:
                connection = await connect(
                    purpose=self._purpose, lock_timeout=self._lock_timeout, deadline_seconds=STATEMENT_TIMEOUT
                )
            except (psycopg.Error, OSError) as error:
                self._backoff_until = loop.time() + RECONNECT_BACKOFF
                raise Unavailable(str(error)) from error
            self._connection, self._backend = connection, connection.info.backend_pid
            if self._orphaned_backends:
                await run_async(connection, end_backends(self._orphaned_backends))
                self._orphaned_backends = []
        return self._connection

    async def _reconnect(self) -> None:
        """At once rather than with the next request: an orphaned backend may continue at any time."""
        async with self._one_at_a_time:
            await self._end_orphans()

    async def _end_orphans(self) -> None:
        if self._orphaned_backends:
            try:
                await self._ready()
            except Unavailable:
                await self._close()

    def _note_orphan(self) -> None:
        _log.warning("the database does not answer a waiting request", seconds=STATEMENT_TIMEOUT, purpose=self._purpose)
        # A pooler in transaction mode has other process ids than the database.
        if settings.PREPARED_STATEMENTS:
            self._orphaned_backends.append(self._backend)

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
