"""A database connection of the batcher that is opened when needed, and again after it was lost."""

import psycopg

from locks.engine.async_connection import connect
from locks.engine.execution import Unavailable
from locks.postgresql.connections import AsyncConnection, is_stale

# Longer than any statement of ours holds a lock's row. Beyond it the other requests of the batch must not wait.
LOCK_TIMEOUT = "250ms"


class ReconnectingConnection:
    def __init__(self) -> None:
        self._connection: AsyncConnection | None = None

    async def ready(self) -> AsyncConnection:
        """Raises Unavailable; then no statement has been sent to the database."""
        if self._connection is not None and is_stale(self._connection):
            await self.close()
        if self._connection is None:
            try:
                connection = await connect(purpose="batching", lock_timeout=LOCK_TIMEOUT)
            except (psycopg.Error, OSError) as error:
                raise Unavailable(str(error)) from error
            self._connection = connection
        return self._connection

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
