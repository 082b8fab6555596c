"""Names: the locks of a space as a tree, free ones included. Only the levels that are shown are read."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from locks.dashboard.database import fetch
from locks.dashboard.filters import Filters
from locks.engine.names import NAMESPACE
from locks.models import Space
from locks.services.lock_row import State

# How many names are looked at in the folder of the page, and in each folder opened in it.
ROWS = 100
OPENED_ROWS = 50
# The numbers of a folder are counted up to this.
MAX_COUNTED = 1_000


@dataclass(frozen=True, kw_only=True)
class NamesFilters(Filters):
    """`open` has the folders that are open, `start` the name that the page begins with."""

    NARROWING = ("prefix",)
    NAMES = {"prefix": True}
    LISTS = {"open": 20}

    prefix: str = ""
    start: str = ""

    @property
    def folder(self) -> str:
        """The prefix up to its last complete segment."""
        path = self.prefix[: self.prefix.rfind("/") + 1]
        namespace = NAMESPACE.match(self.prefix)
        return path or (namespace[0] if namespace else "")

    @property
    def ancestors(self) -> list[tuple[str, str]]:
        """The label and the prefix of each folder down to this one."""
        namespace = NAMESPACE.match(self.folder)
        ends = [namespace.end()] if namespace else []
        ends += [position + 1 for position, letter in enumerate(self.folder) if letter == "/"]
        return [(self.folder[begin:end], self.folder[:end]) for begin, end in zip([0, *ends], ends, strict=False)]


@dataclass(frozen=True, kw_only=True)
class NodeRow:
    level: int
    nth: int
    first_name: str
    # The lock of the node; it does not exist if `id` is None.
    name: str
    # What the names below it begin with; None if there are none.
    folder: str | None
    is_repeated: bool
    id: int | None
    owner: str | None
    expires_at: datetime | None
    state: State | None
    own_waiters: int
    own_stuck: int
    # Those below it.
    names: int
    held: int
    waiters: int
    stuck: int
    now: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", self.state and State(self.state))

    @property
    def is_live(self) -> bool:
        return self.state in (State.HELD, State.EXPIRING)

    @property
    def total_held(self) -> str:
        return _at_most(self.held, self.is_live)

    @property
    def total_waiters(self) -> str:
        return _at_most(self.waiters, self.own_waiters)

    @property
    def total_names(self) -> str:
        return _at_most(self.names, self.id is not None)

    @property
    def total_stuck(self) -> int:
        return self.stuck + self.own_stuck


@dataclass(frozen=True, kw_only=True)
class Node:
    row: NodeRow
    label: str
    depth: int
    is_open: bool
    # The value of `open` once this folder was opened or closed.
    toggled: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class MoreNames:
    """Stands where a folder has more names than are shown."""

    folder: str
    depth: int


@dataclass(frozen=True, kw_only=True)
class Tree:
    # In the order of the page: the children of an open folder after it.
    nodes: list[Node | MoreNames]
    # The name that the next page begins with.
    next_start: str | None
    # Of the database; None if there are no names.
    now: datetime | None


def tree(*, space: Space, filters: NamesFilters) -> Tree:
    folder = filters.folder
    opened = [one for one in dict.fromkeys(filters.open) if one.startswith(folder) and one != folder]
    start = filters.start if filters.start.startswith(filters.prefix) else ""
    parameters = {
        "space_id": space.pk, "folders": [folder, *opened], "prefix": filters.prefix,
        "lows": [start or _first_below(filters.prefix), *map(_first_below, opened)],
        # One more, to know whether there are any.
        "limits": [ROWS + 1, *[OPENED_ROWS + 1] * len(opened)], "max_counted": MAX_COUNTED,
    }  # fmt: skip
    rows = fetch("names/levels", NodeRow, parameters)
    levels: dict[str, list[NodeRow]] = {one: [] for one in (folder, *opened)}
    for row in rows:
        levels[[folder, *opened][row.level - 1]].append(row)
    rest = [row for row in levels[folder] if row.nth > ROWS]
    levels[folder] = [row for row in levels[folder] if row.nth <= ROWS]
    return Tree(
        nodes=list(_shown(filters, levels, folder=folder, depth=0)),
        next_start=rest[0].first_name if rest else None,
        now=rows[0].now if rows else None,
    )


def _shown(
    filters: NamesFilters, levels: dict[str, list[NodeRow]], *, folder: str, depth: int
) -> Iterator[Node | MoreNames]:
    for row in levels[folder]:
        if depth and row.nth > OPENED_ROWS:
            yield MoreNames(folder=folder, depth=depth)
        elif not row.is_repeated:
            is_open = row.folder in levels
            toggled = filters.toggle(row.folder) if row.folder else ()
            label = (row.name if row.id else row.folder or row.name).removeprefix(folder)
            yield Node(row=row, label=label, depth=depth, is_open=is_open, toggled=toggled)
            if row.folder and is_open:
                yield from _shown(filters, levels, folder=row.folder, depth=depth + 1)


def _first_below(prefix: str) -> str:
    """Not the lock of the namespace or folder itself. No name has a blank, which sorts before everything that has."""
    return f"{prefix} " if prefix.endswith(("/", ":")) else prefix


def _at_most(below: int, own: int) -> str:
    return f"{MAX_COUNTED:,}+" if below > MAX_COUNTED else f"{below + own:,}"
