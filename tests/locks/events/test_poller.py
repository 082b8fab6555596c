"""The task that polls for all streams of a process."""

import asyncio
from typing import Any

import psycopg
import pytest

from locks.events.stream.poller import Poller

pytestmark = pytest.mark.usefixtures("committed")


class Job:
    max_duty_cycle = 1.0

    def __init__(self, seconds: float, *, is_needed: bool) -> None:
        self.seconds = seconds
        self.is_needed = is_needed
        self.polled = asyncio.Event()

    async def poll(self, connection: psycopg.AsyncConnection[Any]) -> bool:
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
