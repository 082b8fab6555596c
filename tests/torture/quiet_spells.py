"""Spells in which no request waits at any server, so that the background task of its waiters ends there, and the next
request that waits has to start it again.

All processes of clients know the spells by the seed. At the end of each, one client for each server sends a request
that waits, about when the task ends, and is alone there for a while: another request would start the task for both.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, MutableSequence
from dataclasses import dataclass

from tests.torture.callers import Until

# The background task of the waiters of a server process ends when there were none for so long.
TASK_SECONDS = 10.0
# Requests that wait at the beginning of a spell are answered by then.
MAX_WAIT_SECONDS = 8.5
# For so long the request at the end of a spell is the only one that waits.
ALONE_SECONDS = 9.0
# How much before or after the end of the task it comes: the task looks every 0.2 s.
MAX_EARLY_SECONDS, MAX_LATE_SECONDS = 0.3, 0.4
# No fault begins so long before the beginning of a spell, and after it until its end.
BEFORE_SECONDS, AFTER_SECONDS = 8.0, 28.0
FIRST_SECONDS, PERIOD_SECONDS = 20.0, 180.0


@dataclass(frozen=True)
class Plan:
    """`offsets` says, for each server, how long after the end of its task the next request that waits comes."""

    begins: float
    offsets: list[float]


def spells(seed: int, began: float, *, seconds: float, servers: int) -> list[Plan]:
    chance = random.Random(seed)
    count = max(math.ceil((seconds - FIRST_SECONDS) / PERIOD_SECONDS), 0)
    return [
        Plan(
            began + FIRST_SECONDS + number * PERIOD_SECONDS + chance.uniform(0, 10),
            [chance.uniform(-MAX_EARLY_SECONDS, MAX_LATE_SECONDS) for _ in range(servers)],
        )
        for number in range(count)
    ]


def after_spell(plans: list[Plan], now: float) -> float:
    """When the next fault may happen: at once, or after the spell that is near."""
    ends = [plan.begins + AFTER_SECONDS for plan in plans if now > plan.begins - BEFORE_SECONDS]
    return max([now, *ends])


class QuietSpells:
    """Of one process of clients. `last_waits` is shared by all: when the last request that waited at each server was
    answered."""

    def __init__(self, plans: list[Plan], *, server: int, last_waits: MutableSequence[float], until: Until) -> None:
        self.is_quiet = False
        self._plans = plans
        self.server = server
        self._last_waits = last_waits
        self._until = until

    def note_wait(self, server: int) -> None:
        self._last_waits[server] = time.time()

    @property
    def last_wait(self) -> float:
        return self._last_waits[self.server]

    async def follow(self, wait_alone: Callable[[], Awaitable[None]]) -> None:
        for plan in self._plans:
            await self._reach(lambda begins=plan.begins: begins)
            if self._is_over:
                return
            await self._be_quiet(plan, wait_alone)

    async def _be_quiet(self, plan: Plan, wait_alone: Callable[[], Awaitable[None]]) -> None:
        self.is_quiet = True
        await self._reach(lambda: self._end_of_task(plan))
        resumes = time.time() + ALONE_SECONDS
        if not self._is_over:
            await wait_alone()
        await self._reach(lambda: resumes)
        self.is_quiet = False

    def _end_of_task(self, plan: Plan) -> float:
        return max(self.last_wait + TASK_SECONDS + plan.offsets[self.server], plan.begins + MAX_WAIT_SECONDS)

    @property
    def _is_over(self) -> bool:
        return time.time() >= self._until.value

    async def _reach(self, moment: Callable[[], float]) -> None:
        """The moment may be postponed while it waits."""
        while not self._is_over and (left := moment() - time.time()) > 0:  # noqa: ASYNC110 -- the clock is no event
            await asyncio.sleep(min(left, 0.2))
