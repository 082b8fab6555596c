"""The demo's demand: who asked in vain and who stood in line while somebody else was at work, counted by the minute."""

import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from locks.engine.execution import perform
from locks.history.distribution import bucket_of
from locks.history.rollup import Tally, add_tallies
from locks.management.demo_cast import WORK
from locks.models import Event, Space

TALLIES_AT_ONCE = 2_000


class Demand:
    """Follows from the holds of the history: a lock that is held for long turns more claims away."""

    def __init__(self, *, space: Space, chance: random.Random) -> None:
        self._space = space
        self._chance = chance
        self._tallies: dict[datetime, Tally] = {}
        self._work = {work.name: work for work in WORK}

    def count(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.held_ms is not None and event.lock_name is not None:
                self._count_hold(event.lock_name, end=event.at, held=timedelta(milliseconds=event.held_ms))
        kept = [self._tallies[minute] for minute in sorted(self._tallies)]
        for start in range(0, len(kept), TALLIES_AT_ONCE):
            perform(add_tallies(kept[start : start + TALLIES_AT_ONCE]))

    def _count_hold(self, name: str, *, end: datetime, held: timedelta) -> None:
        work = self._work[name]
        for _ in range(self._about(work.refused * held.total_seconds() / 60)):
            tally = self._tally(end - held * self._chance.random())
            tally.refused += 1
            tally.names[name] = tally.names.get(name, 0) + 1
        for _ in range(self._about(work.waits)):
            waited_ms = held.total_seconds() * 1000 * self._chance.random()
            tally = self._tally(end)
            tally.waited += 1
            tally.waits[bucket_of(waited_ms)] = tally.waits.get(bucket_of(waited_ms), 0) + 1
            waits, together = tally.waited_names.get(name, (0, 0))
            tally.waited_names[name] = (waits + 1, together + round(waited_ms))
        for beat in range(1, int(held.total_seconds() / max(1, work.ttl_seconds / 2))):
            self._tally(end - held + timedelta(seconds=beat * work.ttl_seconds / 2)).renewed += 1

    def _about(self, usual: float) -> int:
        """A number of things that happen so often on average, and come in bursts."""
        number = 0
        left = self._chance.expovariate(1 / usual) if usual else 0.0
        while left > self._chance.random():
            number += 1
            left -= 1
        return number

    def _tally(self, at: datetime) -> Tally:
        minute = at.replace(second=0, microsecond=0)
        if minute not in self._tallies:
            self._tallies[minute] = Tally(
                space_id=self._space.pk, minute=minute.isoformat(), waits=defaultdict(int), names={}, waited_names={}
            )
        return self._tallies[minute]
