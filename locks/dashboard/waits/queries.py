"""Wait graph: which owner waits for which lock, and its holder for which other one."""

from dataclasses import dataclass, field
from datetime import datetime

from locks.dashboard.database import fetch
from locks.models import Space

MAX_WAITERS = 1_000
MAX_CHAINS = 50
# Longer ones are cut.
MAX_LINKS = 20
WAITERS_SHOWN = 3


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
    holder: tuple[str | None, str | None]
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
    waits: dict[tuple[str | None, str | None], list[str]] = {}
    for row in rows:
        lock = locks.setdefault(
            row.name,
            AwaitedLock(
                name=row.name, held_by=row.held_by, held_since=row.held_since, holder=(row.held_by, row.held_by_id)
            ),
        )
        lock.waiters.append(row)
        waits.setdefault((row.owner, row.holder_id), []).append(row.name)
    following = {name: list(dict.fromkeys(waits.get(lock.holder, []))) for name, lock in locks.items()}
    paths = _paths(following)
    now = rows[0].now if rows else None
    chains = [
        Chain(locks=[locks[name] for name in path], is_cycle=is_cycle, now=now) for path, is_cycle in paths if now
    ]
    return WaitGraph(
        chains=chains[:MAX_CHAINS], waiters=len(rows), locks=len(locks), cycles=sum(chain.is_cycle for chain in chains),
        is_truncated=len(rows) >= MAX_WAITERS, now=now,
    )  # fmt: skip


def _paths(following: dict[str, list[str]]) -> list[tuple[list[str], bool]]:
    """The cycles, then the chains that begin where no other goes on; the longest of each first."""
    covered: set[str] = set()
    cycles: list[list[str]] = []
    for start in following:
        if start not in covered and (cycle := _cycle_through(start, following)):
            cycles.append(cycle)
            covered.update(cycle)
    reached = {name for names in following.values() for name in names}
    starts = [name for name in following if name not in reached]
    starts.sort(key=lambda name: -_reachable(name, following))
    chains = [_chain_from(start, following) for start in starts[:MAX_CHAINS]]
    return [
        *((cycle, True) for cycle in sorted(cycles, key=len, reverse=True)),
        *((chain, False) for chain in sorted(chains, key=len, reverse=True)),
    ]


def _cycle_through(start: str, following: dict[str, list[str]]) -> list[str] | None:
    """The shortest cycle through a lock: a breadth-first search for the lock itself."""
    came_from: dict[str, str] = {}
    pending = [start]
    for current in pending:
        if start in following[current]:
            path = [current]
            while path[-1] != start:
                path.append(came_from[path[-1]])
            return path[::-1]
        for name in following[current]:
            if name not in came_from:
                came_from[name] = current
                pending.append(name)
    return None


def _chain_from(start: str, following: dict[str, list[str]]) -> list[str]:
    """A holder that waits for several locks leads to the one with the most behind it; a cycle is gone around once."""
    chain = [start]
    while len(chain) < MAX_LINKS and (ahead := [name for name in following[chain[-1]] if name not in chain]):
        chain.append(max(ahead, key=lambda name: _reachable(name, following)))
    return chain


def _reachable(name: str, following: dict[str, list[str]]) -> int:
    visited = {name}
    pending = [name]
    for current in pending:
        new = [other for other in following[current] if other not in visited]
        visited.update(new)
        pending += new
    return len(visited)
