"""The selected locks, with the fencing tokens under which they were shown.

A form has selected locks (`lock`: id and fencing token), selected owners (`holder`: holder id and owner), or asks for
all locks of a page's filter (`all`: the name of the page, with the filter's parameters beside it).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from locks.dashboard.database import fetch
from locks.dashboard.now.queries import STATES, LockListFilters
from locks.dashboard.stuck.queries import StuckFilters
from locks.models import Space
from locks.models.lock import MAX_FENCING_TOKEN
from locks.services.bulk_release import SelectedLock
from locks.services.stuck import Reason, inbox

MAX_LOCKS = 10_000
MAX_SELECTED = 500


@dataclass(frozen=True, kw_only=True)
class Selection:
    label: str
    locks: list[SelectedLock]


def selection(*, space: Space, form: QueryDict) -> Selection:
    """Empty if nothing was selected, or if none of it is held any more."""
    whole_pages: dict[str, Callable[[], Selection]] = {
        "now": lambda: _filtered(space, LockListFilters.of(form).canonical(space)),
        "stuck": lambda: _stuck(space, StuckFilters.of(form)),
    }
    if select_all := whole_pages.get(form.get("all", "")):
        return select_all()
    if holders := list(_holders(form.getlist("holder")[:MAX_SELECTED])):
        return _by_holder(space, holders)
    return _selected(space, list(_locks(form.getlist("lock")[:MAX_SELECTED])))


def _selected(space: Space, pairs: list[tuple[int, int]]) -> Selection:
    parameters = {
        "space_id": space.pk,
        "ids": [lock_id for lock_id, _ in pairs],
        "tokens": [token for _, token in pairs],
    }
    locks = fetch("bulk_release/selected_locks", SelectedLock, parameters) if pairs else []
    return Selection(label=f"{len(locks)} selected", locks=locks)


def _by_holder(space: Space, holders: list[tuple[str, str]]) -> Selection:
    parameters = {
        "space_id": space.pk, "holder_ids": [holder_id for holder_id, _ in holders],
        "owners": [owner for _, owner in holders],
    }  # fmt: skip
    whose = f"of {holders[0][1]}" if len(holders) == 1 else f"of {len(holders)} owners"
    return _limited(f"all locks {whose}", "bulk_release/locks_by_holder", parameters)


def _filtered(space: Space, filters: LockListFilters) -> Selection:
    conditions = [
        f"matching “{filters.q}”" if filters.q else "",
        f"with prefix “{filters.prefix}”" if filters.prefix else "",
        f"held by “{filters.owner}”" if filters.owner else "",
        f"in the state “{STATES[filters.state].lower()}”" if filters.state else "",
    ]
    label = f"all locks {' and '.join(filter(None, conditions)) or 'held here'}"
    return _limited(label, "bulk_release/filtered_locks", filters.sql_parameters(space))


def _stuck(space: Space, filters: StuckFilters) -> Selection:
    results = inbox(space=space, reason=filters.reason, snoozed=filters.snoozed, limit=MAX_LOCKS)
    label = f"all stuck locks: {Reason(filters.reason).label.lower()}" if filters.reason else "all stuck locks"
    locks = [stuck.lock for stuck in results.locks if stuck.lock.is_live]
    return Selection(
        label=label,
        locks=[SelectedLock(name=lock.name, fencing_token=lock.fencing_token, owner=lock.owner) for lock in locks],
    )


def _limited(label: str, statement: str, parameters: dict[str, Any]) -> Selection:
    locks = fetch(statement, SelectedLock, {**parameters, "rows": MAX_LOCKS + 1})
    if len(locks) > MAX_LOCKS:
        return Selection(label=f"the first {MAX_LOCKS:,} of {label}", locks=locks[:MAX_LOCKS])
    return Selection(label=label, locks=locks)


def _locks(values: Iterable[str]) -> Iterable[tuple[int, int]]:
    for value in values:
        number, _, token = value.partition(":")
        if all(part.isascii() and part.isdigit() and len(part) < 19 for part in (number, token)):
            yield int(number), min(int(token), MAX_FENCING_TOKEN)


def _holders(values: Iterable[str]) -> Iterable[tuple[str, str]]:
    for value in values:
        holder_id, _, owner = value.replace("\0", "").partition(":")
        if holder_id and owner:
            yield holder_id, owner
