"""The headings of the list on Now, by which it is sorted."""

from dataclasses import dataclass
from typing import Literal

Direction = Literal["ascending", "descending", "other"]


@dataclass(frozen=True, kw_only=True)
class Column:
    label: str
    css_class: str = ""
    # The orders that the heading offers in turn, each with the direction of the column's values.
    sorts: tuple[tuple[str, Direction], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Heading:
    column: Column
    # None if the list is not sorted by it.
    direction: Direction | None
    # The value of `sort` in the link; None for the default.
    next_sort: str | None


_COLUMNS = (
    Column(label="State", sorts=(("severity", "other"),)),
    Column(label="Lock", sorts=(("name", "ascending"),)),
    Column(label="Owner", sorts=(("owner", "ascending"),)),
    Column(label="Held for", css_class="number", sorts=(("oldest", "descending"), ("newest", "ascending"))),
    Column(label="Time left", sorts=(("left", "ascending"), ("most_left", "descending"))),
    Column(label="Last heartbeat", css_class="number", sorts=(("quiet", "descending"),)),
    Column(label="Waiting", css_class="number", sorts=(("queue", "descending"),)),
    Column(label="Fencing token", css_class="number fencing"),
)


def headings(*, sort: str) -> list[Heading]:
    return [
        Heading(column=column, direction=dict(column.sorts).get(sort), next_sort=_next(column, sort))
        for column in _COLUMNS
    ]


def _next(column: Column, sort: str) -> str | None:
    """After the last order of a heading comes the default again."""
    sorts = [name for name, _ in column.sorts if name != "severity"]
    return next(iter(sorts[sorts.index(sort) + 1 :] if sort in sorts else sorts), None)
