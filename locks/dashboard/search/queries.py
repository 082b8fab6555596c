"""Search: pages, locks, owners, tokens and requests, in all spaces that a user may see."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from locks.dashboard.access import SpaceContext, visible_spaces
from locks.dashboard.database import fetch
from locks.dashboard.rendering import PAGES
from locks.models import Role, Space, User

MAX_SPACES = 200
# Of one kind, in all spaces and in one of them.
MAX_RESULTS = 12
MAX_PER_SPACE = 5
# Held locks that are read for the names of their owners: an index of owners would make every acquire slower.
MAX_SCANNED = 20_000
# The last character of Unicode: behind every text with the same beginning.
_BEYOND = "\U0010ffff"
_REQUEST_ID = re.compile(r"\S{8,128}")


@dataclass(frozen=True, kw_only=True)
class Result:
    icon: str
    text: str
    note: str
    url: str
    space: SpaceContext


@dataclass(frozen=True, kw_only=True)
class Group:
    label: str
    results: list[Result]


@dataclass(frozen=True, kw_only=True)
class _Row:
    kind: str
    space_id: int
    text: str
    note: str | None


def search(user: User, text: str, *, first: str) -> list[Group]:
    """Only groups with results. The results of the space `first`, such as "blue/main", come first."""
    spaces = [SpaceContext(space=space, role=Role(space.role)) for space in visible_spaces(user)[:MAX_SPACES]]  # type: ignore[attr-defined]  # annotated
    spaces.sort(key=lambda context: str(context.space) != first)
    groups = {"Pages": list(_pages(text, spaces)), "Locks": [], "Owners": [], "Tokens": [], "Requests": []}
    if text:
        by_id = {context.space.pk: context for context in spaces}
        for row in _rows(text, [context.space for context in spaces]):
            label, result = _result(row, by_id[row.space_id])
            groups[label].append(result)
    return [Group(label=label, results=results) for label, results in groups.items() if results]


def _pages(text: str, spaces: Sequence[SpaceContext]) -> Iterable[Result]:
    """Pages whose label, with the names of team and space, has every word. Without a text: those of the first space."""
    words = text.lower().split()
    found = 0
    for context in spaces if words else spaces[:1]:
        for page in PAGES:
            described = (
                f"{context.team.name} {context.team.slug} {context.space.name} {context.space.slug} {page.label}"
            )
            if (page.admins_only and not context.may_manage) or not all(word in described.lower() for word in words):
                continue
            url = context.url(page.url or page.key)
            yield Result(icon=page.icon, text=page.label, note="", url=url, space=context)
            found += 1
            if found == MAX_RESULTS:
                return


def _rows(text: str, spaces: Sequence[Space]) -> list[_Row]:
    parameters = {
        "space_ids": [space.pk for space in spaces],
        "text": text,
        "beyond": text + _BEYOND,
        "each": MAX_PER_SPACE,
        "rows": MAX_RESULTS,
        "scanned": MAX_SCANNED,
        "request_id": text if _REQUEST_ID.fullmatch(text) else None,
    }
    return fetch("search/search", _Row, parameters)


def _result(row: _Row, context: SpaceContext) -> tuple[str, Result]:
    match row.kind:
        case "lock":
            note = f"held by {row.note}" if row.note else "free"
            return "Locks", Result(
                icon="held" if row.note else "free", text=row.text, note=note,
                url=context.url("lock", name=row.text), space=context,
            )  # fmt: skip
        case "owner":
            url = f"{context.url('owners')}?{urlencode({'q': row.text})}"
            return "Owners", Result(icon="people", text=row.text, note="", url=url, space=context)
        case "token" | "old_token":
            query = {"q": row.text} | ({"show": "history"} if row.kind == "old_token" else {})
            url = f"{context.url('tokens')}?{urlencode(query)}"
            return "Tokens", Result(icon="key", text=row.note or "", note=row.text, url=url, space=context)
        case "request":
            url = f"{context.url('activity')}?{urlencode({'request': row.text})}"
            return "Requests", Result(icon="activity", text=row.text, note="", url=url, space=context)
    raise AssertionError(row.kind)
