"""What somebody ticked, as locks with the fencing tokens they were shown under.

A form brings ticks of locks (`lock`: id and fencing token), ticks of owners (`holder`: pseudonym and owner), or asks
for all that a page's filter finds (`all`: the page's name, with the filter beside it).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from locks.dashboard.database import fetch
from locks.dashboard.now.queries import LockListFilter, parameters_of
from locks.dashboard.stuck.queries import REASONS, Reason, StuckFilter, inbox
from locks.models import Space
from locks.models.lock import MAX_FENCING_TOKEN
from locks.services.bulk_release import SelectedLock

MAX_LOCKS = 10_000
MAX_TICKS = 500


@dataclass(frozen=True, kw_only=True)
class Selection:
    label: str
    locks: list[SelectedLock]


def selection(*, space: Space, form: QueryDict) -> Selection:
    """Empty if nothing was ticked, or if nothing of it is held any more."""
    of_all: dict[str, Callable[[], Selection]] = {
        "now": lambda: _matching(space, LockListFilter.of(form)),
        "stuck": lambda: _stuck(space, StuckFilter.of(form)),
    }
    if choose := of_all.get(form.get("all", "")):
        return choose()
    if holders := list(_pairs(form.getlist("holder")[:MAX_TICKS])):
        return _held_by(space, holders)
    return _ticked(space, list(_ticks(form.getlist("lock")[:MAX_TICKS])))


def _ticked(space: Space, ticks: list[tuple[int, int]]) -> Selection:
    asked = {"space_id": space.pk, "ids": [one for one, _ in ticks], "tokens": [token for _, token in ticks]}
    locks = fetch("bulk_release/selected_locks", SelectedLock, asked) if ticks else []
    return Selection(label=f"{len(locks)} ticked", locks=locks)


def _held_by(space: Space, holders: list[tuple[str, str]]) -> Selection:
    asked = {"space_id": space.pk, "holder_ids": [one for one, _ in holders],
             "owners": [owner for _, owner in holders]}  # fmt: skip
    who = holders[0][1] if len(holders) == 1 else f"{len(holders)} owners"
    return _limited(f"everything {who} holds", "held_by", asked)


def _matching(space: Space, wanted: LockListFilter) -> Selection:
    said = [
        f"matches “{wanted.q}”" if wanted.q else "",
        f"begins with “{wanted.prefix}”" if wanted.prefix else "",
        f"is held by “{wanted.owner}”" if wanted.owner else "",
    ]
    chosen = f"everything that {' and '.join(filter(None, said))}" if wanted.narrows else "everything held here"
    return _limited(chosen, "bulk_release/filtered_locks", parameters_of(space=space, wanted=wanted))


def _stuck(space: Space, wanted: StuckFilter) -> Selection:
    found = inbox(space=space, wanted=wanted, limit=MAX_LOCKS).locks
    what = f"stuck: {REASONS[Reason(wanted.reason)].lower()}" if wanted.reason else "stuck"
    return Selection(
        label=f"everything {what}",
        locks=[
            SelectedLock(name=one.lock.name, fencing_token=one.lock.fencing_token, owner=one.lock.owner)
            for one in found
            if one.lock.is_live
        ],
    )


def _limited(chosen: str, statement: str, asked: dict[str, Any]) -> Selection:
    found = fetch(statement, SelectedLock, {**asked, "rows": MAX_LOCKS + 1})
    if len(found) > MAX_LOCKS:
        return Selection(label=f"the first {MAX_LOCKS:,} of {chosen}", locks=found[:MAX_LOCKS])
    return Selection(label=chosen, locks=found)


def _ticks(values: Iterable[str]) -> Iterable[tuple[int, int]]:
    for value in values:
        number, _, token = value.partition(":")
        if all(part.isascii() and part.isdigit() and len(part) < 19 for part in (number, token)):
            yield int(number), min(int(token), MAX_FENCING_TOKEN)


def _pairs(values: Iterable[str]) -> Iterable[tuple[str, str]]:
    for value in values:
        holder_id, _, owner = value.replace("\0", "").partition(":")
        if holder_id and owner:
            yield holder_id, owner
