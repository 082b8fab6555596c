"""One task on one database connection, for everything that this process has to keep an eye on.

What there is to look at comes as duties. Each has its own pace and its own share of the time; together they need
nothing while nobody listens.
"""

import asyncio
import time
from typing import Any, Protocol

import psycopg
import structlog

from locks.engine.async_connection import connect
from locks.engine.execution import Unavailable

RETRY_SECONDS = 2.0

_log = structlog.stdlib.get_logger(__name__)


class PollJob(Protocol):
    # How often to look, and which part of the time looking may take at most, however much there is to see.
    seconds: float
    max_duty_cycle: float

    @property
    def is_needed(self) -> bool:
        """Whether somebody listens."""

    async def look(self, connection: psycopg.AsyncConnection[Any]) -> bool:
        """True if there is more to see at once."""


class Poller:
    """Lives on the event loop."""

    def __init__(self) -> None:
        self._duties: list[PollJob] = []
        self._task: asyncio.Task[None] | None = None

    def register(self, *duties: PollJob) -> None:
        self._duties.extend(duties)

    def attend(self) -> None:
        """To be called when somebody has begun to listen."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._attend())

    @property
    def _is_needed(self) -> bool:
        return any(duty.is_needed for duty in self._duties)

    async def _attend(self) -> None:
        while self._is_needed:
            try:
                async with await connect(purpose="live") as connection:
                    await self._look_again_and_again(connection)
            except (psycopg.Error, Unavailable) as error:
                _log.warning("the live view cannot reach the database", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:
                # Whoever listens would wait for ever.
                _log.exception("the live view failed")
                await asyncio.sleep(RETRY_SECONDS)

    async def _look_again_and_again(self, connection: psycopg.AsyncConnection[Any]) -> None:
        due: dict[int, float] = {}
        while self._is_needed:
            for number, duty in enumerate(self._duties):
                began = time.monotonic()
                if duty.is_needed and due.get(number, 0.0) <= began:
                    more = await duty.look(connection)
                    took = time.monotonic() - began
                    due[number] = began + max(0.0 if more else duty.seconds, took / duty.max_duty_cycle)
            waits = [due.get(number, 0.0) for number, duty in enumerate(self._duties) if duty.is_needed]
            await asyncio.sleep(max(0.0, min(waits, default=0.0) - time.monotonic()))
