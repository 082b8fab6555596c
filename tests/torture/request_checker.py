"""What one request may get: all of several names or none, and one lease, however often it is sent with its key."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping

from tests.torture.history import Event, History, Op
from tests.torture.leases import MAX_TTL_SECONDS
from tests.torture.violations import ROUNDING, Violation, violation


def check_requests(history: History, ends: Mapping[tuple[str, int], Event], judged: Counter[str]) -> list[Violation]:
    grants: dict[str, list[Event]] = defaultdict(list)
    owners: dict[tuple[str, int], str] = {}
    for event in history.events:
        if event.kind == "acquired" and event.owner is not None:
            grants[event.owner].append(event)
            owners[event.name, event.fencing_token] = event.owner
    answers: dict[tuple[str, float], list[Op]] = defaultdict(list)
    found = []
    for op in history.ops:
        judged["key"] += op.has_key and op.outcome in ("acquired", "held", "none")
        if op.all_of and op.owner is not None:
            answers[op.owner, op.returned].append(op)
        elif op.has_key and op.outcome in ("held", "none") and _is_own(op, owners):
            what = f"{op.owner} has {op.fencing_token}, and was told that another holds the name"
            found.append(Violation("key", op.name, what, op.invoked, op.returned))
    names_of: dict[str, list[Op]] = {}
    for (owner, _), ops in answers.items():
        names_of[owner] = ops
        judged["all"] += 1
        acquired = sum(op.outcome == "acquired" for op in ops)
        if acquired not in (0, ops[0].all_of):
            what = f"{owner} got {acquired} of {ops[0].all_of} names"
            found.append(Violation("all", ops[0].name, what, ops[0].invoked, ops[0].returned))
    for owner, events in grants.items():
        if owner in names_of:
            found += _check_all(owner, names_of[owner], events)
        elif len(events) > 1:
            found += _check_one(owner, events, ends)
    return found


def _is_own(op: Op, owners: Mapping[tuple[str, int], str]) -> bool:
    return op.fencing_token is not None and owners.get((op.name, op.fencing_token)) == op.owner


def _check_all(owner: str, ops: list[Op], events: list[Event]) -> list[Violation]:
    """Not of one that waits, which gets one name at a time and hands it on if it cannot get the others."""
    counts = {op.name: 0 for op in ops}
    for event in events:
        counts[event.name] = counts.get(event.name, 0) + 1
    if ops[0].waits or len(set(counts.values())) == 1:
        return []
    what = f"{owner} was granted only some of its names"
    return [violation("all", ops[0].name, what, [event.at for event in events])]


def _check_one(owner: str, events: list[Event], ends: Mapping[tuple[str, int], Event]) -> list[Violation]:
    """A lease was over before the next one began. Of one name the audit history says so in any case."""
    found = []
    events.sort(key=lambda event: event.id)
    for before, after in itertools.pairwise(events):
        end = ends.get((before.name, before.fencing_token))
        # The expiry of a lease may be recorded later, or not before the end of the run.
        over = before.at + MAX_TTL_SECONDS if end is None else end.over
        if (end is None or end.id > after.id) and over > after.at + ROUNDING:
            what = f"{owner} has {before.fencing_token} of {before.name} and {after.fencing_token} of {after.name}"
            found.append(Violation("key", after.name, what, before.at, after.at))
    return found
