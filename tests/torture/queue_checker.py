"""The queue: first come, first served, and no name stays free while a request waits for it."""

import bisect
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from tests.torture.history import Event, History, Op, Place
from tests.torture.leases import Lease
from tests.torture.violations import ROUNDING, Quiet, Violation

# How long a name may stay free while a request waits for it: twice what a waiter that has disappeared may cost, and a
# process that is slow without a fault.
IDLE_SECONDS = 5.0
# While the clock of the database is wrong, times in the history are up to 30 s ahead, and do not say how long a name
# was free.
CLOCK_SECONDS = 35.0

Leases = Mapping[tuple[str, int], Lease]


def check_order(history: History, judged: Counter[str]) -> list[Violation]:
    """A request that was sent after another was seen in the queue does not get the lock before it. Not around faults: a
    waiter whose server process stalls is passed over, and returns to its place."""
    found = []
    asked = _asked(history.ops)
    quiet = Quiet(history)
    grants = _grants(history.events)
    times = {name: [grant.at for grant in of_name] for name, of_name in grants.items()}
    served: dict[tuple[str, str | None], list[tuple[float, int]]] = defaultdict(list)
    for name, of_name in grants.items():
        for number, grant in enumerate(of_name):
            if grant.place is not None:
                served[name, grant.owner].append((grant.place, number))
    for place in history.places:
        index = _index_of(place, served.get((place.name, place.owner), ()))
        of_name = grants.get(place.name, [])
        # Until it was served, or else as long as it was seen.
        until = of_name[index].at if index is not None else place.last
        if not quiet.during(min(place.at, place.seen), max(until, place.seen)):
            continue
        judged["order"] += 1
        end = index if index is not None else bisect.bisect_left(times.get(place.name, []), until)
        for number in range(end - 1, -1, -1):
            earlier = of_name[number]
            if earlier.at < place.at:
                break
            sent = asked.get(earlier.owner)
            if sent is not None and sent > place.seen and earlier.at < until:
                by = sent - place.seen
                what = f"{earlier.owner} was served first, and sent {by:.3f} s after {place.owner} was in the queue"
                found.append(Violation("order", place.name, what, place.at, until))
    return found


def _index_of(place: Place, served: Sequence[tuple[float, int]]) -> int | None:
    """Of the grant that ended the wait: a request that lost its place and got another one waited twice."""
    return next((index for at, index in served if abs(at - place.at) <= ROUNDING), None)


def check_idle(history: History, leases: Leases, judged: Counter[str]) -> list[Violation]:
    """A name does not stay free while a request waits for it, whether or not the request gets it in the end. Stalls
    count: a process that stops serving its waiters without a fault is what this finds. A lease is over when it has
    expired, however late that was recorded."""
    quiet = Quiet(history, stalls=False)
    free: dict[str, list[tuple[float, float]]] = defaultdict(list)
    # A request whose time is up acquires the name if it is free by then, without a place. When the first attempt of one
    # that was repeated has waited is not known.
    repeated = {op.owner for op in history.ops if op.outcome == "unknown"}
    answered = {
        op.owner: (op.name, op.invoked, op.returned)
        for op in history.ops
        if op.waits and op.outcome in ("none", "acquired") and not op.all_of and op.owner not in repeated
        and op.returned - op.invoked > IDLE_SECONDS
    }  # fmt: skip
    waits = list(answered.values())
    by_name: dict[str, list[Event]] = defaultdict(list)
    for event in sorted(history.events, key=lambda event: event.id):
        by_name[event.name].append(event)
        if event.place is not None and event.at - event.place > IDLE_SECONDS and event.owner not in answered:
            waits.append((event.name, event.place, event.at))
    for name, events in by_name.items():
        for before, after in itertools.pairwise([*events, None]):
            assert before is not None
            if after is not None and after.kind != "acquired":
                continue
            lease = leases.get((name, before.fencing_token))
            over = before.over if before.kind != "acquired" else math.inf
            freed = min(over, lease.latest_expiry() if lease is not None else math.inf)
            taken = after.at if after is not None else math.inf
            if taken - freed > IDLE_SECONDS:
                free[name].append((freed, taken))
    found = []
    for name, began, ended in waits:
        if not quiet.during(began, ended) or _is_near_clock_step(history, began, ended):
            continue
        judged["idle"] += 1
        for freed, taken in free[name]:
            if (idle := min(taken, ended) - max(freed, began)) > IDLE_SECONDS:
                found.append(Violation("idle", name, f"free for {idle:.1f} s while a request waited", began, ended))
    return found


def _is_near_clock_step(history: History, began: float, ended: float) -> bool:
    return any(
        began < step.ended + CLOCK_SECONDS and step.began - CLOCK_SECONDS < ended for step in history.clock_steps
    )


def overtaken(history: History, seconds: float) -> int:
    """The number of waits for one name, away from faults, that were served after a request which was sent so much
    later. Not a violation: both were under way when the first got its place. It says how long that takes."""
    quiet, asked = Quiet(history), asked_for_one_name(history)
    count = 0
    for grants in _grants(history.events).values():
        latest = -math.inf
        for event in grants:
            sent = asked.get(event.owner)
            if sent is None:
                continue
            if event.place is not None and quiet.during(event.place, event.at):
                count += latest > sent + seconds
            latest = max(latest, sent)
    return count


def _grants(events: list[Event]) -> dict[str, list[Event]]:
    """Of each name, in their order."""
    by_name: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.kind == "acquired":
            by_name[event.name].append(event)
    for grants in by_name.values():
        grants.sort(key=lambda event: event.fencing_token)
    return by_name


def _asked(ops: list[Op]) -> dict[str | None, float]:
    """When each request was sent for the first time."""
    asked: dict[str | None, float] = {}
    for op in ops:
        if op.owner is not None:
            asked[op.owner] = min(asked.get(op.owner, math.inf), op.invoked)
    return asked


def asked_for_one_name(history: History) -> dict[str | None, float]:
    """Not those of acquire-all, which is in the queue of one of its names at a time, nor those that were repeated:
    their first attempt may have lost its place."""
    repeated = {op.owner for op in history.ops if op.outcome == "unknown"}
    return _asked([op for op in history.ops if not op.all_of and op.owner not in repeated])
