"""Counts in memory what leaves no event: renewals, refusals and waits. `usage` writes them once a second.

A refusal costs no row and no write of its own, so a crowd that asks for a held name costs the database nothing more.
"""

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from locks.engine import results
from locks.engine.verdicts import Verdict
from locks.events.history.histogram import bucket_of
from locks.events.history.rollup import Tally

# Of the names that are refused or waited for in a second so many are remembered, and so many written, the first ranked.
MAX_NAMES = 1000
NAMES_WRITTEN = 20
# Those that a case below speaks of.
_COUNTED = frozenset({Verdict.RENEWED, Verdict.HELD, Verdict.DELAYED})


class _Outcome(Protocol):
    @property
    def verdict(self) -> str: ...


@dataclass
class _Counts:
    renewed: int = 0
    refused: int = 0
    waits: Counter[int] = field(default_factory=Counter)
    names: Counter[str] = field(default_factory=Counter)
    waited_names: Counter[str] = field(default_factory=Counter)
    waited_ms: Counter[str] = field(default_factory=Counter)


class Tallies:
    """By space and minute; the minute is the database's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[int, datetime], _Counts] = {}

    def _of(self, space_id: int, now: datetime) -> _Counts:
        return self._counts.setdefault((space_id, now.replace(second=0, microsecond=0)), _Counts())

    def count(self, found: Iterable[_Outcome]) -> None:
        """What the engine has answered; most of it needs no counting."""
        for outcome in found:
            if outcome.verdict not in _COUNTED:
                continue
            match outcome:
                case results.Renewed(verdict=Verdict.RENEWED, space_id=int(space_id), now=now):
                    with self._lock:
                        self._of(space_id, now).renewed += 1
                case (
                    results.Acquired(verdict=Verdict.HELD | Verdict.DELAYED, space_id=int(space_id), now=now)
                    | results.Claimed(verdict=Verdict.HELD | Verdict.DELAYED, space_id=int(space_id), now=now)
                    | results.AcquireAllRow(verdict=Verdict.HELD, is_blocking=True, space_id=int(space_id), now=now)
                ):
                    with self._lock:
                        counts = self._of(space_id, now)
                        counts.refused += 1
                        if outcome.name is not None and (outcome.name in counts.names or len(counts.names) < MAX_NAMES):
                            counts.names[outcome.name] += 1

    def count_wait(self, *, space_id: int, now: datetime, milliseconds: float, name: str | None = None) -> None:
        """Somebody stood in line for so long, whether it was worth it or not."""
        with self._lock:
            counts = self._of(space_id, now)
            counts.waits[bucket_of(milliseconds)] += 1
            if name is not None and (name in counts.waited_names or len(counts.waited_names) < MAX_NAMES):
                counts.waited_names[name] += 1
                counts.waited_ms[name] += round(milliseconds)

    def take(self) -> list[Tally]:
        """What was counted since the last time."""
        with self._lock:
            counts, self._counts = self._counts, {}
        return [
            Tally(
                space_id=space_id,
                minute=minute.isoformat(),
                renewed=counted.renewed,
                refused=counted.refused,
                waited=counted.waits.total(),
                waits=dict(counted.waits),
                names=dict(counted.names.most_common(NAMES_WRITTEN)),
                waited_names={
                    name: (waits, counted.waited_ms[name])
                    for name, waits in counted.waited_names.most_common(NAMES_WRITTEN)
                },
            )
            for (space_id, minute), counted in sorted(counts.items(), key=lambda item: item[0])
        ]


tallies = Tallies()
