"""Statistics of the demo: rejected claims, waits and renewals by the minute."""

import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from locks.engine.execution import run
from locks.events.history.histogram import bucket_of
from locks.events.history.rollup import UsageCounts, add_usage
from locks.management.demo_data import JOBS
from locks.models import Event, Space

BATCH_SIZE = 2_000
# Requests wait for a minute at most; most arrive near the end of a hold.
MAX_WAIT = timedelta(seconds=60)
NEAR_END = timedelta(seconds=90)


class Demand:
    """Derived from the holds in the history: a longer hold rejects more claims."""

    def __init__(self, *, space: Space, rng: random.Random) -> None:
        self._space = space
        self._rng = rng
        self._counts: dict[datetime, UsageCounts] = {}
        self._jobs = {job.name: job for job in JOBS}

    def count(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.held_ms is not None and event.lock_name is not None:
                self._count_hold(event.lock_name, end=event.at, held=timedelta(milliseconds=event.held_ms))
        self._write()

    def advance(self, *, now: datetime, held: Iterable[str], timed_out: Iterable[str]) -> None:
        """Counts another second: rejected claims of held locks, and waits that timed out."""
        for name in held:
            if name in self._jobs and self._rng.random() < self._jobs[name].refused / 60:
                counts = self._counts_at(now)
                counts.refused += 1
                counts.names[name] = counts.names.get(name, 0) + 1
        for name in timed_out:
            self._count_wait(name, end=now, waited=MAX_WAIT)
        self._write()

    def _write(self) -> None:
        minutes = [self._counts[minute] for minute in sorted(self._counts)]
        for start in range(0, len(minutes), BATCH_SIZE):
            run(add_usage(minutes[start : start + BATCH_SIZE]))
        self._counts = {}

    def _count_hold(self, name: str, *, end: datetime, held: timedelta) -> None:
        job = self._jobs[name]
        for _ in range(self._random_count(job.refused * held.total_seconds() / 60)):
            counts = self._counts_at(end - held * self._rng.random())
            counts.refused += 1
            counts.names[name] = counts.names.get(name, 0) + 1
        for _ in range(self._random_count(job.waits)):
            self._count_wait(name, end=end, waited=min(MAX_WAIT, min(held, NEAR_END) * self._rng.random()))
        for beat in range(1, int(held.total_seconds() / max(1, job.ttl_seconds / 2))):
            self._counts_at(end - held + timedelta(seconds=beat * job.ttl_seconds / 2)).renewed += 1

    def _count_wait(self, name: str, *, end: datetime, waited: timedelta) -> None:
        milliseconds = waited.total_seconds() * 1000
        counts = self._counts_at(end)
        counts.waited += 1
        counts.waits[bucket_of(milliseconds)] = counts.waits.get(bucket_of(milliseconds), 0) + 1
        waits, total_ms = counts.waited_names.get(name, (0, 0))
        counts.waited_names[name] = (waits + 1, total_ms + round(milliseconds))

    def _random_count(self, mean: float) -> int:
        """With this mean, and in bursts."""
        count = 0
        left = self._rng.expovariate(1 / mean) if mean else 0.0
        while left > self._rng.random():
            count += 1
            left -= 1
        return count

    def _counts_at(self, at: datetime) -> UsageCounts:
        minute = at.replace(second=0, microsecond=0)
        if minute not in self._counts:
            self._counts[minute] = UsageCounts(
                space_id=self._space.pk, minute=minute.isoformat(), waits=defaultdict(int), names={}, waited_names={}
            )
        return self._counts[minute]
