"""A database connection of the fast lane that is opened when it is needed, and again after it was lost."""

from typing import Any

import psycopg

from locks.engine.async_connection import connect
from locks.engine.execution import Unavailable, has_pending_input

# Nobody holds a lock's row for longer, unless something is wrong; then the other requests of the batch must not wait.
LOCK_TIMEOUT = "SET lock_timeout = '250ms'"


class MendingConnection:
    def __init__(self) -> None:
        self._connection: psycopg.AsyncConnection[Any] | None = None

    async def ready(self) -> psycopg.AsyncConnection[Any]:
        """Raises Unavailable; then nothing has been asked of the database."""
        if self._connection is not None and has_pending_input(self._connection):
            await self.close()
        if self._connection is None:
            try:
                connection = await connect(purpose="fast lane")
                await connection.execute(LOCK_TIMEOUT)
            except (psycopg.Error, OSError) as error:
                raise Unavailable(str(error)) from error
            self._connection = connection
        return self._connection

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
