"""The task that polls for all streams of a process."""

import asyncio
from datetime import UTC, datetime

import pytest

from locks.engine.async_connection import connect
from locks.events.history.commit_order import Position
from locks.events.stream.cursors import Cursor
from locks.events.stream.event_tail import EventTail
from locks.events.stream.memory import stream_memory
from locks.events.stream.poller import Poller
from locks.events.stream.watchers import Watcher
from locks.postgresql.connections import AsyncConnection

pytestmark = pytest.mark.usefixtures("committed")


class Job:
    max_duty_cycle = 1.0

    def __init__(self, seconds: float, *, is_needed: bool) -> None:
        self.seconds = seconds
        self.is_needed = is_needed
        self.polled = asyncio.Event()

    def connection_failed(self) -> None:
        """It would end its streams."""

    async def poll(self, connection: AsyncConnection) -> bool:
        self.polled.set()
        return False


def test_a_stream_that_is_added_while_the_task_sleeps_is_polled_at_once() -> None:
    async def scenario() -> None:
        slow, new = Job(3600, is_needed=True), Job(3600, is_needed=False)
        poller = Poller()
        poller.register(slow, new)
        poller.ensure_running()
        await asyncio.wait_for(slow.polled.wait(), 20)
        new.is_needed = True
        poller.ensure_running()
        await asyncio.wait_for(new.polled.wait(), 20)
        slow.is_needed = new.is_needed = False
        poller.ensure_running()

    asyncio.run(scenario())


def test_the_last_watcher_may_leave_while_the_history_is_read() -> None:
    """Otherwise the poll fails, and streams that begin in the next two seconds get no events."""

    async def scenario() -> None:
        cursor = Cursor(datetime.now(UTC), Position(1, 0))
        watcher = Watcher(space_id=1, token_id=1, name="a", cursor=cursor, account=stream_memory.open(1))
        tail = EventTail()
        tail.add(watcher)
        async with await connect(purpose="test") as connection:
            await tail.poll(connection)
            polling = asyncio.create_task(tail.poll(connection))
            await asyncio.sleep(0)
            tail.remove(watcher)
            assert await asyncio.wait_for(polling, 20) is False

    asyncio.run(scenario())
