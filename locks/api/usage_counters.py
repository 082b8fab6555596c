"""Counts in memory what leaves no event: renewals, refusals and waits. `usage_flusher` writes them once a second.

So a refusal writes no row: many requests for a held name cost the database nothing more.
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
from locks.events.history.rollup import UsageCounts

# Of the names that are refused or waited for in a second, how many are counted, and how many of those are written.
MAX_NAMES = 1000
MAX_NAMES_WRITTEN = 20
# The verdicts of the cases in `count`.
_COUNTED = frozenset({Verdict.RENEWED, Verdict.HELD, Verdict.DELAYED})


class _Result(Protocol):
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


class UsageCounters:
    """By space and minute; the minute is the database's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[int, datetime], _Counts] = {}

    def _of(self, space_id: int, now: datetime) -> _Counts:
        return self._counts.setdefault((space_id, now.replace(second=0, microsecond=0)), _Counts())

    def count(self, rows: Iterable[_Result]) -> None:
        """The engine's results; most of them are not counted."""
        for row in rows:
            if row.verdict not in _COUNTED:
                continue
            match row:
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
                        if row.name is not None and (row.name in counts.names or len(counts.names) < MAX_NAMES):
                            counts.names[row.name] += 1

    def count_wait(self, *, space_id: int, now: datetime, milliseconds: float, name: str | None = None) -> None:
        """A request that was queued for so long, whether it got the lock or not."""
        with self._lock:
            counts = self._of(space_id, now)
            counts.waits[bucket_of(milliseconds)] += 1
            if name is not None and (name in counts.waited_names or len(counts.waited_names) < MAX_NAMES):
                counts.waited_names[name] += 1
                counts.waited_ms[name] += round(milliseconds)

    def take(self) -> list[UsageCounts]:
        """The counts since the last call."""
        with self._lock:
            taken, self._counts = self._counts, {}
        return [
            UsageCounts(
                space_id=space_id,
                minute=minute.isoformat(),
                renewed=counts.renewed,
                refused=counts.refused,
                waited=counts.waits.total(),
                waits=dict(counts.waits),
                names=dict(counts.names.most_common(MAX_NAMES_WRITTEN)),
                waited_names={
                    name: (waits, counts.waited_ms[name])
                    for name, waits in counts.waited_names.most_common(MAX_NAMES_WRITTEN)
                },
            )
            for (space_id, minute), counts in sorted(taken.items(), key=lambda item: item[0])
        ]


usage_counters = UsageCounters()
