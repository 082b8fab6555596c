"""A database connection that many waiting requests share, one statement at a time. Opened when it is needed."""

import asyncio
from typing import Any, TypeVar

import psycopg

from locks.engine.connecting import connect
from locks.engine.execution import Unavailable, has_news, perform_on
from locks.engine.rounds import Operation

Answer = TypeVar("Answer")


class Desk:
    """`patience` is how long a statement may wait for somebody else's row: whoever comes next waits as long."""

    def __init__(self, *, purpose: str, patience: str) -> None:
        self._purpose = purpose
        self._patience = patience
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._one_at_a_time = asyncio.Lock()

    async def perform(self, operation: Operation[Answer]) -> Answer:
        """Raises Unavailable. An operation that was begun is seen through, whoever has lost interest in it."""
        return await asyncio.shield(self._perform(operation))

    async def _perform(self, operation: Operation[Answer]) -> Answer:
        async with self._one_at_a_time:
            connection = await self._ready()
            try:
                return await perform_on(connection, operation)
            except BaseException:
                await self._close()
                raise

    async def close(self) -> None:
        async with self._one_at_a_time:
            await self._close()

    async def _ready(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is not None and has_news(self._connection):
            await self._close()
        if self._connection is None:
            try:
                self._connection = await connect(purpose=self._purpose)
                await self._connection.execute(f"SET lock_timeout = '{self._patience}'")
            except (psycopg.Error, OSError) as error:
                await self._close()
                raise Unavailable(str(error)) from error
        return self._connection

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
