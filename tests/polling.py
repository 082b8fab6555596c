"""Waiting for a condition, on machines of any speed."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

TIMEOUT_SECONDS = 40
INTERVAL_SECONDS = 0.01

Result = TypeVar("Result")


def until(condition: Callable[[], Result], description: str = "", *, timeout: float = TIMEOUT_SECONDS) -> Result:
    """The first true result of the condition."""
    deadline = time.monotonic() + timeout
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {timeout} s: {description or condition}"
        time.sleep(INTERVAL_SECONDS)
    return result


async def async_until(condition: Callable[[], object], *, seconds: float = TIMEOUT_SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 -- a condition has no event to wait for
            await asyncio.sleep(INTERVAL_SECONDS)
