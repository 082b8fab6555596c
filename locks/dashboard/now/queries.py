"""Who owns what, right now: a filter in the address, a page of locks out of the database."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from django.http import QueryDict

from locks.dashboard.database import fetch
from locks.dashboard.event_text import EventSummary, recent_events
from locks.dashboard.lock.queries import waiters_of
from locks.dashboard.lock_row import LockRow
from locks.dashboard.page_number import LAST_PAGE, parse_page
from locks.models import Space, Waiter

ROWS = 50
EXACT_UP_TO = 10_000
MAX_OPEN = 5
MAX_TEXT = 256

Sort = Literal["trouble", "name", "oldest", "newest", "left"]
SORTS: dict[str, str] = {
    "trouble": "Trouble first",
    "left": "Least time left",
    "oldest": "Held longest",
    "newest": "Newest",
    "name": "Name",
}
assert set(SORTS) == set(get_args(Sort))
GROUPS: dict[str, str] = {"": "No groups", "owner": "Owner", "prefix": "Prefix"}


@dataclass(frozen=True, kw_only=True)
class LockListFilter:
    """What the address asks for. Nonsense in it is as good as nothing."""

    q: str = ""
    prefix: str = ""
    owner: str = ""
    sort: str = "trouble"
    group: str = ""
    page: int = 1
    # The rows that stand open, by the ids of their locks.
    open: tuple[int, ...] = ()

    @classmethod
    def of(cls, query: QueryDict) -> "LockListFilter":
        sort, group = query.get("sort", "trouble"), query.get("group", "")
        return cls(
            q=_text(query, "q"),
            prefix=_text(query, "prefix"),
            owner=_text(query, "owner"),
            sort=sort if sort in SORTS else "trouble",
            group=group if group in GROUPS else "",
            page=parse_page(query),
            open=tuple(_ids(query.getlist("open")))[:MAX_OPEN],
        )

    @property
    def narrows(self) -> bool:
        return bool(self.q or self.prefix or self.owner)

    def query(self, **changes: Any) -> str:
        """The address' query for this filter with changes; what is as usual is left out."""
        changed = replace(self, **changes)
        parameters = QueryDict(mutable=True)
        for field in fields(changed):
            value = getattr(changed, field.name)
            if value != field.default:
                parameters.setlist(field.name, [str(v) for v in (value if isinstance(value, tuple) else (value,))])
        return f"?{parameters.urlencode()}" if parameters else "?"

    def toggled(self, lock_id: int) -> str:
        if lock_id in self.open:
            return self.query(open=tuple(number for number in self.open if number != lock_id))
        return self.query(open=(*self.open, lock_id)[-MAX_OPEN:])


@dataclass(frozen=True, kw_only=True)
class Group:
    """Above the first row of a group on a page; the numbers are those of the whole group."""

    label: str
    number: int
    troubled: int
    # Leads to the group alone; None for what has no owner or no prefix.
    query: str | None


@dataclass(frozen=True, kw_only=True)
class Row:
    lock: LockRow
    heading: Group | None
    toggle: str
    owner_query: str
    # Of an open row; otherwise None.
    latest: list[EventSummary] | None
    waiters: list[Waiter]


@dataclass(frozen=True, kw_only=True)
class LockList:
    rows: list[Row]
    # None: nobody narrowed it down, so the counters say it.
    found: int | None
    previous: str | None
    next: str | None
    first: int

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1

    @property
    def found_in_words(self) -> str:
        assert self.found is not None
        return f"more than {EXACT_UP_TO:,}" if self.found > EXACT_UP_TO else f"{self.found:,}"


def parameters_of(*, space: Space, wanted: LockListFilter) -> dict[str, Any]:
    """The filter as the statements take it."""
    pattern = wanted.q.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
    return {
        "space_id": space.pk, "prefix": wanted.prefix, "owner": wanted.owner, "search": wanted.q,
        "pattern": f"%{pattern}%", "plain": wanted.q.isascii(),
    }  # fmt: skip


def lock_list(*, space: Space, wanted: LockListFilter) -> LockList:
    asked = parameters_of(space=space, wanted=wanted)
    skipped = (wanted.page - 1) * ROWS
    page_of = {**asked, "sort": wanted.sort, "rows": ROWS + 1, "skipped": skipped}
    if wanted.group:
        grouped = [
            _grouped(row, wanted) for row in fetch("now/lock_list_grouped", dict, {**page_of, "group": wanted.group})
        ]
        holdings = [lock for lock, _heading in grouped]
        headings = [
            heading if place == 0 or heading.label != grouped[place - 1][1].label else None
            for place, (_lock, heading) in enumerate(grouped)
        ]
    else:
        holdings = fetch("now/lock_list", LockRow, page_of)
        headings = [None] * len(holdings)
    shown = holdings[:ROWS]
    open_names = [lock.name for lock in shown if lock.id in wanted.open]
    opened = recent_events(space=space, names=open_names)
    in_line = waiters_of(space=space, names=open_names, now=shown[0].now) if open_names else {}
    return LockList(
        rows=[
            Row(
                lock=lock,
                heading=heading,
                toggle=wanted.toggled(lock.id),
                owner_query=wanted.query(owner=lock.owner or "", page=1, open=()),
                latest=opened.get(lock.name, []) if lock.id in wanted.open else None,
                waiters=in_line.get(lock.name, []),
            )
            for lock, heading in zip(shown, headings[:ROWS], strict=True)
        ],
        found=_found(asked, skipped=skipped, holdings=holdings) if wanted.narrows else None,
        previous=wanted.query(page=wanted.page - 1, open=()) if wanted.page > 1 else None,
        next=wanted.query(page=wanted.page + 1, open=()) if len(holdings) > ROWS and wanted.page < LAST_PAGE else None,
        first=skipped + 1,
    )


@dataclass(frozen=True, kw_only=True)
class _Size:
    number: int


def _found(asked: dict[str, Any], *, skipped: int, holdings: list[LockRow]) -> int:
    """Counted only where the page does not show it: to count means to look at everything once more."""
    if len(holdings) <= ROWS and (holdings or not skipped):
        return skipped + len(holdings)
    (found,) = fetch("now/lock_list_size", _Size, asked)
    return found.number


def _grouped(row: dict[str, Any], wanted: LockListFilter) -> tuple[LockRow, Group]:
    label = row.pop("label")
    heading = Group(
        label=label,
        number=row.pop("number"),
        troubled=row.pop("troubled"),
        query=wanted.query(**{wanted.group: label, "group": "", "page": 1, "open": ()}) if label else None,
    )
    return LockRow(**row), heading


def _text(query: QueryDict, name: str) -> str:
    # Postgres takes no null character in a text, and no name or owner has one.
    return query.get(name, "").replace("\0", "").strip()[:MAX_TEXT]


def _ids(values: Iterable[str]) -> Iterable[int]:
    return (int(value) for value in values if value.isascii() and value.isdigit() and len(value) < 19)
