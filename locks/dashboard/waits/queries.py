"""Wait graph: which owner waits for which lock, and its holder for which other one."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from locks.dashboard.database import fetch
from locks.models import Space

MAX_WAITERS = 1_000
MAX_CHAINS = 50
# Longer ones are cut.
MAX_LINKS = 20
WAITERS_SHOWN = 3

# The owner and the holder id. None of both: the lock is not held.
Holder = tuple[str | None, str | None]


@dataclass(frozen=True, kw_only=True)
class Waiting:
    name: str
    owner: str
    holder_id: str
    enqueued_at: datetime
    held_by: str | None
    held_by_id: str | None
    held_since: datetime | None
    now: datetime


@dataclass(kw_only=True)
class AwaitedLock:
    """A lock with waiters, the longest wait first. `held_by` is None if it is being handed over, or if a lease of
    another name blocks it."""

    name: str
    held_by: str | None
    held_since: datetime | None
    holder: Holder
    waiters: list[Waiting] = field(default_factory=list)

    @property
    def first_waiters(self) -> list[Waiting]:
        return self.waiters[:WAITERS_SHOWN]

    @property
    def other_waiters(self) -> int:
        return len(self.waiters) - len(self.first_waiters)


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Each lock's holder waits for the next lock. In a cycle the holder of the last one waits for one of them."""

    locks: list[AwaitedLock]
    is_cycle: bool
    now: datetime

    @property
    def key(self) -> str:
        return self.locks[0].name


@dataclass(frozen=True, kw_only=True)
class WaitGraph:
    chains: list[Chain]
    waiters: int
    locks: int
    cycles: int
    # There were more waiters than were looked at.
    is_truncated: bool
    now: datetime | None


def wait_graph(*, space: Space) -> WaitGraph:
    rows = fetch("waits/waits", Waiting, {"space_id": space.pk, "rows": MAX_WAITERS})
    locks: dict[str, AwaitedLock] = {}
    # The names that each holder waits for.
    waits: dict[Holder, list[str]] = {}
    for row in rows:
        lock = locks.setdefault(
            row.name,
            AwaitedLock(
                name=row.name, held_by=row.held_by, held_since=row.held_since, holder=(row.held_by, row.held_by_id)
            ),
        )
        lock.waiters.append(row)
        waits.setdefault((row.owner, row.holder_id), []).append(row.name)
    paths = _paths(locks, _Graph(holders={name: lock.holder for name, lock in locks.items()}, waits=waits))
    now = rows[0].now if rows else None
    chains = [
        Chain(locks=[locks[name] for name in path], is_cycle=is_cycle, now=now) for path, is_cycle in paths if now
    ]
    return WaitGraph(
        chains=chains[:MAX_CHAINS], waiters=len(rows), locks=len(locks), cycles=sum(chain.is_cycle for chain in chains),
        is_truncated=len(rows) >= MAX_WAITERS, now=now,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Reach:
    """What a holder waits for, directly or through other holders."""

    locks: int
    # Those among them that it holds itself: each is in a cycle.
    own: frozenset[str]


class _Graph:
    """What follows a lock depends on its holder alone, so a search goes on from each holder once, not from each of its
    locks."""

    def __init__(self, *, holders: dict[str, Holder], waits: dict[Holder, list[str]]) -> None:
        self._holders = holders
        # Only of holders of locks with waiters: no chain leads to the others.
        self._waits: dict[Holder, dict[str, None]] = {
            holder: dict.fromkeys(waits.get(holder, ())) for holder in holders.values()
        }
        self._reach: dict[Holder, _Reach] = {}

    def following(self, name: str) -> dict[str, None]:
        return self._waits[self._holders[name]]

    def starts(self) -> list[str]:
        """The locks that no other leads to, those with the most behind them first."""
        reached = {name for names in self._waits.values() for name in names}
        return sorted((name for name in self._holders if name not in reached), key=self.reachable, reverse=True)

    def reachable(self, name: str) -> int:
        """How many locks there are from this one on, itself included."""
        reach = self._reach_of(self._holders[name])
        return reach.locks if name in reach.own else reach.locks + 1

    def cycle_through(self, start: str) -> list[str] | None:
        """The shortest cycle through a lock: a breadth-first search for the lock itself."""
        if start not in self._reach_of(self._holders[start]).own:
            return None
        came_from: dict[str, str] = {}
        pending, searched = [start], set()
        for current in pending:
            if self._holders[current] in searched:
                continue
            searched.add(self._holders[current])
            following = self.following(current)
            if start in following:
                path = [current]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            new = [name for name in following if name not in came_from]
            came_from.update(dict.fromkeys(new, current))
            pending += new
        return None

    def _reach_of(self, holder: Holder) -> _Reach:
        if holder not in self._reach:
            names: set[str] = set()
            pending, searched = [holder], {holder}
            for current in pending:
                names.update(self._waits[current])
                for name in self._waits[current]:
                    if (other := self._holders[name]) not in searched:
                        searched.add(other)
                        pending.append(other)
            own = frozenset(name for name in names if self._holders[name] == holder)
            self._reach[holder] = _Reach(locks=len(names), own=own)
        return self._reach[holder]


def _paths(locks: Iterable[str], graph: _Graph) -> list[tuple[list[str], bool]]:
    """The cycles, then the chains that begin where no other goes on; the longest of each first."""
    covered: set[str] = set()
    cycles: list[list[str]] = []
    for start in locks:
        if start not in covered and (cycle := graph.cycle_through(start)):
            cycles.append(cycle)
            covered.update(cycle)
    chains = [_chain_from(start, graph) for start in graph.starts()[:MAX_CHAINS]]
    return [
        *((cycle, True) for cycle in sorted(cycles, key=len, reverse=True)),
        *((chain, False) for chain in sorted(chains, key=len, reverse=True)),
    ]


def _chain_from(start: str, graph: _Graph) -> list[str]:
    """A holder that waits for several locks leads to the one with the most behind it; a cycle is gone around once."""
    chain = [start]
    while len(chain) < MAX_LINKS and (ahead := [name for name in graph.following(chain[-1]) if name not in chain]):
        chain.append(max(ahead, key=graph.reachable))
    return chain
