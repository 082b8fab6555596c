"""Decides whether a recorded history is one that the promises allow.

Fencing tokens order all grants of a name, so whether the history of a name is linearizable needs no search: every
observation is compared with what is certain about the leases around it. Unknown outcomes stay open: they may have taken
effect at any time after their invocation, so they make less certain and are never a violation themselves. Leases
expire by the clock of the database: when that was set, its times are compared with what it may have read (clocks.py).
"""

import bisect
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.torture.clocks import DatabaseTime
from tests.torture.history import Delivered, Event, History, KvOp, Op
from tests.torture.kv_checker import check_store

# Timestamps in answers are cut to milliseconds.
ROUNDING = 0.002
# From the moment when the statement reads the clock to its commit, which is when a place counts.
COMMIT_SECONDS = 0.1
# A waiter whose server process stalls is passed over, and heartbeats of a process resume some time after a fault.
ABSENT_SECONDS = 10.0
# How long a name may stay free while a request waits for it: twice what a waiter that has disappeared may cost, and a
# process that is slow without a fault.
IDLE_SECONDS = 5.0


@dataclass(frozen=True)
class Violation:
    """`began` and `ended` are the smallest window that shows it."""

    rule: str
    name: str
    what: str
    began: float
    ended: float


@dataclass
class Lease:
    """What is certain about one lease. Granted between `asked` and `granted`; over not before `may_end`, and not after
    `has_ended`, both without regard to the clock; not before `expires_at` by the clock."""

    token: int
    lease_id: str | None
    asked: float = math.inf
    granted: float = math.inf
    acquired_at: float | None = None
    expires_at: float = -math.inf
    may_end: float = math.inf
    has_ended: float = math.inf
    has_unknown_renewal: bool = False
    session: str | None = None
    releases: list[Op] = field(default_factory=list)
    forced: float = math.inf


def check(history: History) -> list[Violation]:
    sessions = _sessions(history.ops)
    clock = DatabaseTime(history.clock_steps)
    by_name: dict[str, list[Op]] = defaultdict(list)
    for op in history.ops:
        if op.verb not in ("open_session", "keepalive", "end_session"):
            by_name[op.name].append(op)
    found: list[Violation] = []
    for name, ops in sorted(by_name.items()):
        found += _NameChecker(name, ops, sessions, clock).check()
    found += _check_audit(history)
    found += _check_queue(history)
    found += _check_idle(history)
    found += _check_watches(history.events, history.delivered)

    def report_store(path: str, what: str, op: KvOp) -> None:
        found.append(Violation("store", path, what, op.invoked, op.returned))

    check_store(history.kv_ops, report_store)
    found += [Violation("audit", "", contradiction, 0, 0) for contradiction in history.contradictions]
    return found


@dataclass
class _Session:
    expires_at: float = -math.inf
    may_end: float = math.inf
    has_unknown_keepalive: bool = False


def _sessions(ops: Iterable[Op]) -> dict[str, _Session]:
    sessions: dict[str, _Session] = defaultdict(_Session)
    for op in ops:
        if op.session is None or op.verb not in ("open_session", "keepalive", "end_session"):
            continue
        session = sessions[op.session]
        if op.verb == "end_session":
            session.may_end = min(session.may_end, op.invoked)
        elif op.outcome == "unknown":
            session.has_unknown_keepalive = True
        elif op.expires_at is not None:
            session.expires_at = max(session.expires_at, op.expires_at)
    return sessions


class _NameChecker:
    def __init__(self, name: str, ops: list[Op], sessions: dict[str, _Session], clock: DatabaseTime) -> None:
        self.name = name
        self.clock = clock
        self.ops = sorted(ops, key=lambda op: op.invoked)
        self.by_id: dict[str, Lease] = {}
        self.by_token: dict[int, Lease] = {}
        self.found: list[Violation] = []
        self._collect(sessions)
        self.leases = sorted(self.by_token.values(), key=lambda lease: lease.token)
        self._by_grant = sorted(self.leases, key=lambda lease: lease.granted)
        self._grants = [lease.granted for lease in self._by_grant]
        self._highest = list(itertools.accumulate((lease.token for lease in self._by_grant), max))

    def _violation(self, rule: str, what: str, *ops_or_times: float) -> None:
        times = [time for time in ops_or_times if math.isfinite(time)] or [0.0]
        self.found.append(Violation(rule, self.name, what, min(times), max(times)))

    def _collect(self, sessions: dict[str, _Session]) -> None:
        for op in self.ops:
            if op.outcome == "acquired":
                self._granted(op, sessions)
        for op in self.ops:
            lease = self.by_id.get(op.lease_id or "")
            if op.verb == "force":
                self._forced(op)
            elif lease is None:
                continue
            elif op.verb == "release":
                lease.may_end = min(lease.may_end, op.invoked)
                lease.releases.append(op)
                if op.outcome == "released":
                    lease.has_ended = min(lease.has_ended, op.returned)
            elif op.verb == "renew":
                if op.outcome == "renewed" and op.expires_at is not None:
                    lease.expires_at = max(lease.expires_at, op.expires_at)
                lease.has_unknown_renewal |= op.outcome == "unknown"

    def _granted(self, op: Op, sessions: dict[str, _Session]) -> None:
        assert op.fencing_token is not None
        assert op.lease_id is not None
        lease = self.by_token.setdefault(op.fencing_token, Lease(op.fencing_token, op.lease_id))
        if lease.lease_id != op.lease_id:
            self._violation("fencing", f"two leases have the token {op.fencing_token}", op.invoked, op.returned)
        self.by_id[op.lease_id] = lease
        lease.asked = min(lease.asked, op.invoked)
        lease.granted = min(lease.granted, op.returned)
        lease.acquired_at = op.acquired_at
        lease.expires_at = max(lease.expires_at, op.expires_at or -math.inf)
        if op.session is not None:
            session = sessions[op.session]
            lease.session = op.session
            expiry = self.clock.reached(session.expires_at, lease.asked)
            lease.may_end = min(lease.may_end, session.may_end, expiry)

    def _forced(self, op: Op) -> None:
        if op.outcome == "released" and op.fencing_token in self.by_token:
            lease = self.by_token[op.fencing_token]
            lease.forced = min(lease.forced, op.invoked)
            lease.may_end = min(lease.may_end, op.invoked)
            lease.has_ended = min(lease.has_ended, op.returned)
        elif op.outcome == "unknown":
            for lease in self.by_token.values():
                lease.forced = min(lease.forced, max(op.invoked, lease.asked))
                lease.may_end = min(lease.may_end, lease.forced)

    def check(self) -> list[Violation]:
        self._check_grants()
        for lease in self.leases:
            times = [op.returned for op in lease.releases if op.outcome == "released"]
            if len(times) > 1:
                self._violation("release", f"{lease.token} was released twice", *times)
        for op in self.ops:
            if op.outcome == "held" and op.fencing_token is not None:
                self._check_seen(op)
            elif op.outcome == "free":
                self._check_not_live(op, "the name was free")
            elif op.outcome == "refused":
                self._check_refused(op)
            elif op.outcome in ("renewed", "released") and op.verb in ("renew", "release"):
                self._check_effective(op)
        return self.found

    def _check_grants(self) -> None:
        latest_asked = -math.inf
        for before, after in itertools.pairwise(self.leases):
            latest_asked = max(latest_asked, before.asked)
            if after.granted < latest_asked:
                self._violation(
                    "fencing",
                    f"{after.token} was granted before a lower token was asked for",
                    after.granted,
                    latest_asked,
                )
            begins = after.acquired_at
            if begins is None or before.may_end <= after.granted:
                continue
            # A clock that was set back may show less than the end of a lease that it has passed.
            if not self.clock.is_steady(before.asked, after.granted):
                begins = self.clock.highest(before.asked, after.granted)
            if before.expires_at > begins + ROUNDING:
                self._violation(
                    "overlap", f"{after.token} was granted while {before.token} was held", begins, before.expires_at
                )

    def _check_seen(self, op: Op) -> None:
        assert op.fencing_token is not None
        highest = self._highest_before(op.invoked)
        if highest > op.fencing_token:
            self._violation(
                "stale", f"{op.fencing_token} was seen after {highest} was granted", op.invoked, op.returned
            )
        lease = self.by_token.get(op.fencing_token)
        if lease is None:
            return
        if lease.asked > op.returned:
            self._violation("stale", f"{lease.token} was seen before it was asked for", op.returned, lease.asked)
        if lease.has_ended < op.invoked:
            self._violation("stale", f"{lease.token} was seen after its end", lease.has_ended, op.invoked)
        seen_at = self.clock.lowest(op.invoked, op.returned)
        if not lease.has_unknown_renewal and lease.expires_at < seen_at - ROUNDING:
            self._violation("stale", f"{lease.token} was seen after its expiry", lease.expires_at, op.invoked)

    def _check_not_live(self, op: Op, what: str) -> None:
        for lease in self._recent(op.invoked):
            if self._is_certain(lease, op):
                self._violation("lost", f"{what} while {lease.token} was held", op.invoked, op.returned)

    def _is_certain(self, lease: Lease, op: Op) -> bool:
        """Whether it was held during the operation, whatever the unknown outcomes did."""
        is_granted = lease.granted <= op.invoked and lease.may_end > op.returned
        return is_granted and not self._may_have_expired(lease, op.returned)

    def _may_have_expired(self, lease: Lease, time: float) -> bool:
        return lease.expires_at <= self.clock.highest(lease.asked, time) + ROUNDING

    def _check_refused(self, op: Op) -> None:
        lease = self.by_id.get(op.lease_id or "")
        if lease is None or lease.granted > op.invoked or self._may_have_expired(lease, op.returned):
            return
        others = [other.invoked for other in lease.releases if other is not op and other.outcome != "refused"]
        session_end = lease.may_end if lease.session is not None else math.inf
        if min([*others, lease.forced, session_end]) > op.returned:
            self._violation("lost", f"{lease.token} was not current though it was held", op.invoked, op.returned)

    def _check_effective(self, op: Op) -> None:
        lease = self.by_id.get(op.lease_id or "")
        if lease is None:
            return
        if lease.has_ended < op.invoked:
            self._violation("revived", f"{lease.token} was {op.outcome} after its end", lease.has_ended, op.returned)
        highest = self._highest_before(op.invoked)
        if highest > lease.token:
            self._violation(
                "revived", f"{lease.token} was {op.outcome} after {highest} was granted", op.invoked, op.returned
            )

    def _highest_before(self, time: float) -> int:
        """The highest token that was certainly granted before."""
        count = bisect.bisect_left(self._grants, time)
        return self._highest[count - 1] if count else 0

    def _recent(self, time: float) -> Iterator[Lease]:
        count = bisect.bisect_right(self._grants, time)
        yield from self._by_grant[max(count - 3, 0) : count]


def _check_audit(history: History) -> list[Violation]:
    """Each acknowledged transition is in the history once, and every lease there begins and ends once."""
    found = []
    counts = Counter((event.name, event.fencing_token, event.kind) for event in history.events)
    times = {(event.name, event.fencing_token): event.at for event in history.events}
    for (name, token, kind), count in counts.items():
        if count > 1:
            at = times[name, token]
            found.append(Violation("audit", name, f"{kind} of {token} is there {count} times", at, at))
    ends = Counter((event.name, event.fencing_token) for event in history.events if event.kind != "acquired")
    for (name, token), count in ends.items():
        if count > 1:
            found.append(Violation("audit", name, f"{token} ended {count} times", 0, 0))
        if not counts[name, token, "acquired"]:
            found.append(Violation("audit", name, f"{token} ended without having been acquired", 0, 0))
    found += _check_order_of_events(history.events)
    if not history.events:
        return found
    kinds = {
        ("acquire", "acquired"): "acquired",
        ("release", "released"): "released",
        ("force", "released"): "force_released",
    }
    tokens = {op.lease_id: op.fencing_token for op in history.ops if op.outcome == "acquired"}
    for op in history.ops:
        if kind := kinds.get((op.verb, op.outcome)):
            token = tokens.get(op.lease_id) if op.verb == "release" else op.fencing_token
            if token is not None and not counts[op.name, token, kind]:
                found.append(Violation("audit", op.name, f"{kind} of {token} is missing", op.invoked, op.returned))
    return found


def _check_order_of_events(events: list[Event]) -> list[Violation]:
    """Of each name: a lease begins, ends, and the next one, with a higher token, begins. Whatever the clock says."""
    found = []
    last: dict[str, Event] = {}
    for event in sorted(events, key=lambda event: event.id):
        before = last.get(event.name)
        last[event.name] = event
        if event.kind != "acquired":
            is_next = before is not None and (before.kind, before.fencing_token) == ("acquired", event.fencing_token)
        else:
            is_next = before is None or (before.kind != "acquired" and before.fencing_token < event.fencing_token)
        if not is_next:
            what = f"{event.kind} of {event.fencing_token} follows {before and before.kind} of another lease"
            found.append(Violation("audit", event.name, what, event.at, event.at))
    return found


def waits_in_order(history: History) -> int:
    """The number of waits for one name, away from faults."""
    quiet, asked = _Quiet(history), _asked_for_one_name(history)
    return sum(
        event.place is not None and event.request_id in asked and quiet.during(event.place, event.at)
        for event in history.events
    )


def overtaken(history: History, seconds: float) -> int:
    """The number of those waits that were served after a request which was sent so much later. Not a violation: both
    were under way when the first got its place. It says how long that takes."""
    quiet, asked = _Quiet(history), _asked_for_one_name(history)
    grants: dict[str, list[Event]] = defaultdict(list)
    for event in history.events:
        if event.kind == "acquired" and event.request_id in asked:
            grants[event.name].append(event)
    count = 0
    for of_name in grants.values():
        latest = -math.inf
        for event in sorted(of_name, key=lambda event: event.fencing_token):
            sent = asked[event.request_id or ""]
            if event.place is not None and quiet.during(event.place, event.at):
                count += latest > sent + seconds
            latest = max(latest, sent)
    return count


def _asked_for_one_name(history: History) -> dict[str, float]:
    """When each request was sent. Not those of acquire-all, which is in the queue of one of its names at a time."""
    acquires = [op for op in history.ops if op.verb == "acquire" and op.request_id]
    names = Counter(op.request_id for op in acquires)
    return {op.request_id: op.invoked for op in acquires if op.request_id and names[op.request_id] == 1}


def _check_queue(history: History) -> list[Violation]:
    """A request that was sent after another had its place does not get the lock before it. Not around faults: a waiter
    whose server process stalls is passed over, and returns to its place."""
    found = []
    asked = {op.request_id: op.invoked for op in history.ops if op.verb == "acquire" and op.request_id}
    quiet = _Quiet(history)
    by_name: dict[str, list[Event]] = defaultdict(list)
    for event in history.events:
        if event.kind == "acquired":
            by_name[event.name].append(event)
    for name, grants in by_name.items():
        grants.sort(key=lambda event: event.fencing_token)
        for index, served in enumerate(grants):
            if served.place is None or not quiet.during(served.place, served.at):
                continue
            for number in range(index - 1, -1, -1):
                earlier = grants[number]
                if earlier.at < served.place:
                    break
                sent = asked.get(earlier.request_id or "")
                if sent is not None and sent > served.place + COMMIT_SECONDS:
                    by = sent - served.place
                    late = f"{served.request_id} had its place {by:.3f} s before {earlier.request_id} was sent"
                    found.append(Violation("order", name, late, served.place, served.at))
    return found


def _check_idle(history: History) -> list[Violation]:
    """A name does not stay free while a request waits for it, whether or not the request gets it in the end. Stalls
    count: a process that stops serving its waiters without a fault is what this finds."""
    quiet = _Quiet(history, stalls=False)
    free: dict[str, list[tuple[float, float]]] = defaultdict(list)
    last: dict[str, Event] = {}
    waits: list[tuple[str, float, float]] = []
    for event in sorted(history.events, key=lambda event: event.id):
        before = last.get(event.name)
        last[event.name] = event
        if event.kind != "acquired":
            continue
        if before is not None and event.at - before.at > IDLE_SECONDS:
            free[event.name].append((before.at, event.at))
        if event.place is not None:
            waits.append((event.name, event.place, event.at))
    for name, event in last.items():
        if event.kind != "acquired":
            free[name].append((event.at, math.inf))
    waits += [(op.name, op.invoked, op.returned) for op in history.ops if op.waits and op.outcome == "none"]
    found = []
    for name, began, ended in waits:
        if ended - began <= IDLE_SECONDS or not quiet.during(began, ended):
            continue
        for freed, taken in free[name]:
            if (idle := min(taken, ended) - max(freed, began)) > IDLE_SECONDS:
                found.append(Violation("idle", name, f"free for {idle:.1f} s while a request waited", began, ended))
    return found


class _Quiet:
    """Away from faults, and from times in which a server process gave no sign of life."""

    def __init__(self, history: History, *, stalls: bool = True) -> None:
        spans = [(fault.began - 1, fault.ended + ABSENT_SECONDS) for fault in history.faults]
        self._spans = sorted([*spans, *(history.stalls if stalls else ())])
        self._last_ends = list(itertools.accumulate((end for _, end in self._spans), max))

    def during(self, begin: float, end: float) -> bool:
        count = bisect.bisect_right(self._spans, (end, math.inf))
        return not count or self._last_ends[count - 1] < begin


def _check_watches(events: list[Event], delivered: list[Delivered]) -> list[Violation]:
    """Every watch has every transition of every name, once and in order. After a `reset` it may have missed some."""
    found = []
    expected: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event.id):
        expected[event.name].append((event.kind, event.fencing_token))
    watches: dict[int, dict[str, list[tuple[str, int]]]] = {}
    resets: dict[tuple[int, str], set[int]] = defaultdict(set)
    for one in delivered:
        names = watches.setdefault(one.watch, defaultdict(list))
        if one.kind == "reset":
            for name in expected:
                resets[one.watch, name].add(len(names[name]))
        else:
            names[one.name].append((one.kind, one.fencing_token))
    for watch, names in watches.items():
        for name in sorted({*expected, *names}):
            got, wanted = names.get(name, []), expected.get(name, [])
            if got == wanted or _has_gaps_only_at(resets[watch, name], got, wanted):
                continue
            if missing := Counter(wanted) - Counter(got):
                what = f"missing {next(iter(missing))} and {missing.total() - 1} more"
            elif extra := Counter(got) - Counter(wanted):
                what = f"repeated or unknown {next(iter(extra))}"
            else:
                what = "in another order than the history"
            found.append(Violation("watch", name, f"watch {watch}: {what}", 0, 0))
    return found


def _has_gaps_only_at(indices: set[int], got: list[tuple[str, int]], wanted: list[tuple[str, int]]) -> bool:
    """Whether the transitions that are missing would have come at those indices."""
    positions = {one: position for position, one in enumerate(wanted)}
    found = [positions.get(one, -1) for one in got]
    before = -1
    for index, position in enumerate([*found, len(wanted)]):
        if position <= before or (position != before + 1 and index not in indices):
            return False
        before = position
    return True
