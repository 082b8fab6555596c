"""The demo's demand: who asked in vain and who stood in line while somebody else was at work, counted by the minute."""

import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from locks.engine.execution import run
from locks.events.history.histogram import bucket_of
from locks.events.history.rollup import UsageCounts, add_usage
from locks.management.demo_data import WORK
from locks.models import Event, Space

BATCH_SIZE = 2_000
# Who waits asks for a minute at most, and gives up then; most come when the work is nearly done.
MAX_WAIT = timedelta(seconds=60)
NEARLY_DONE = timedelta(seconds=90)


class Demand:
    """Follows from the holds of the history: a lock that is held for long turns more claims away."""

    def __init__(self, *, space: Space, chance: random.Random) -> None:
        self._space = space
        self._chance = chance
        self._counts: dict[datetime, UsageCounts] = {}
        self._work = {work.name: work for work in WORK}

    def count(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.held_ms is not None and event.lock_name is not None:
                self._count_hold(event.lock_name, end=event.at, held=timedelta(milliseconds=event.held_ms))
        self._write()

    def go_on(self, *, now: datetime, held: Iterable[str], gave_up: Iterable[str]) -> None:
        """Another second: some ask in vain for what is held, and some have waited for a minute."""
        for name in held:
            if name in self._work and self._chance.random() < self._work[name].refused / 60:
                counts = self._counts_at(now)
                counts.refused += 1
                counts.names[name] = counts.names.get(name, 0) + 1
        for name in gave_up:
            self._count_wait(name, end=now, waited=MAX_WAIT)
        self._write()

    def _write(self) -> None:
        kept = [self._counts[minute] for minute in sorted(self._counts)]
        for start in range(0, len(kept), BATCH_SIZE):
            run(add_usage(kept[start : start + BATCH_SIZE]))
        self._counts = {}

    def _count_hold(self, name: str, *, end: datetime, held: timedelta) -> None:
        work = self._work[name]
        for _ in range(self._about(work.refused * held.total_seconds() / 60)):
            counts = self._counts_at(end - held * self._chance.random())
            counts.refused += 1
            counts.names[name] = counts.names.get(name, 0) + 1
        for _ in range(self._about(work.waits)):
            self._count_wait(name, end=end, waited=min(MAX_WAIT, min(held, NEARLY_DONE) * self._chance.random()))
        for beat in range(1, int(held.total_seconds() / max(1, work.ttl_seconds / 2))):
            self._counts_at(end - held + timedelta(seconds=beat * work.ttl_seconds / 2)).renewed += 1

    def _count_wait(self, name: str, *, end: datetime, waited: timedelta) -> None:
        milliseconds = waited.total_seconds() * 1000
        counts = self._counts_at(end)
        counts.waited += 1
        counts.waits[bucket_of(milliseconds)] = counts.waits.get(bucket_of(milliseconds), 0) + 1
        waits, together = counts.waited_names.get(name, (0, 0))
        counts.waited_names[name] = (waits + 1, together + round(milliseconds))

    def _about(self, usual: float) -> int:
        """A number of things that happen so often on average, and come in bursts."""
        number = 0
        left = self._chance.expovariate(1 / usual) if usual else 0.0
        while left > self._chance.random():
            number += 1
            left -= 1
        return number

    def _counts_at(self, at: datetime) -> UsageCounts:
        minute = at.replace(second=0, microsecond=0)
        if minute not in self._counts:
            self._counts[minute] = UsageCounts(
                space_id=self._space.pk, minute=minute.isoformat(), waits=defaultdict(int), names={}, waited_names={}
            )
        return self._counts[minute]
