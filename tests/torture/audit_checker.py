"""The audit history equals the transitions, one to one.

Each acknowledged transition is in it once, at the time of its answer; every lease there begins and ends once, and in
order; and every row has a request that may have caused it, or a lease that had expired.
"""

import bisect
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from tests.torture.clocks import DatabaseTime
from tests.torture.history import Event, History, Op
from tests.torture.leases import MAX_TTL_SECONDS, Lease, Session
from tests.torture.violations import ROUNDING, Violation, violation

Ends = Mapping[tuple[str, int], Event]

_KINDS = {
    ("acquire", "acquired"): "acquired",
    ("release", "released"): "released",
    ("force", "released"): "force_released",
}


def check_audit(
    history: History, ends: Ends, sessions: dict[str, Session], clock: DatabaseTime, judged: Counter[str]
) -> list[Violation]:
    judged["audit"] += len(history.events)
    found = _check_order_of_events(history.events)
    rows = {(event.name, event.fencing_token, event.kind): event for event in history.events}
    tokens = {op.lease_id: op.fencing_token for op in history.ops if op.outcome == "acquired"}
    for op in history.ops:
        if kind := _KINDS.get((op.verb, op.outcome)):
            token = tokens.get(op.lease_id) if op.verb == "release" else op.fencing_token
            if token is None:
                continue
            judged["audit"] += 1
            row = rows.get((op.name, token, kind))
            if row is None:
                what = f"{kind} of {token} is missing"
                found.append(Violation("audit", op.name, what, op.invoked, op.returned))
            elif op.acquired_at is not None and abs(row.at - op.acquired_at) > ROUNDING:
                what = f"{kind} of {token} is there with another time than in the answer"
                found.append(violation("audit", op.name, what, (op.invoked, op.returned, row.at)))
    return found + _Causes(history, ends, sessions, clock).check(history.events)


def check_end(lease: Lease, clock: DatabaseTime) -> Iterator[tuple[str, float]]:
    """What the history says about the end of a lease, against what its holder was told."""
    end = lease.end
    if end is None:
        return
    if end.kind == "expired":
        session = lease.session
        earliest = lease.expires_at if session is None else min(lease.expires_at, session.expires_at)
        if end.over < earliest - 2 * ROUNDING:
            yield f"{lease.token} expired {earliest - end.over:.3f} s before the time that its holder was told", end.at
        elif end.over > lease.latest_end(math.inf) + 2 * ROUNDING:
            yield f"{lease.token} expired later than it can have been extended", end.at
        if end.late < -ROUNDING:
            yield f"{lease.token} expired after that was recorded", end.at
    elif lease.releases and not any(_may_be(clock, op, end.at) for op in lease.releases):
        yield f"{end.kind} of {lease.token} is not within the request that was told so", end.at


def _may_be(clock: DatabaseTime, op: Op, at: float) -> bool:
    """Whether the request may have taken effect at that time of the database."""
    until = math.inf if op.outcome == "unknown" else op.returned
    return clock.lowest(op.invoked, until) - ROUNDING <= at <= clock.highest(op.invoked, until) + ROUNDING


def _check_order_of_events(events: list[Event]) -> list[Violation]:
    """Of each name: a lease begins, ends, and the next one, with a higher token, begins. So none does so
    twice, whatever the clock says."""
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
            follows = f"{before.kind} of {before.fencing_token}" if before is not None else "nothing"
            what = f"{event.kind} of {event.fencing_token} follows {follows}"
            found.append(Violation("audit", event.name, what, event.at, event.at))
    return found


# The reason of a lease that was handed to a waiter and returned by its server process, because it did not take it.
RETURNED = "the waiting client had disconnected"


class _Causes:
    """The requests that may have caused a row of the history."""

    def __init__(self, history: History, ends: Ends, sessions: dict[str, Session], clock: DatabaseTime) -> None:
        self._ends = ends
        self._sessions = sessions
        self._clock = clock
        # By owner, and by lease.
        self._acquires: dict[str | None, list[Op]] = defaultdict(list)
        self._releases: dict[str | None, list[Op]] = defaultdict(list)
        # The leases that a client was told of, and the grants, by name and token.
        self._told: dict[tuple[str, int], Op] = {}
        self._grants = {
            (event.name, event.fencing_token): event for event in history.events if event.kind == "acquired"
        }
        self._forces: dict[tuple[str, int], Op] = {}
        self._unknown_forces: dict[str, list[float]] = defaultdict(list)
        for op in history.ops:
            if op.verb == "acquire":
                self._acquires[op.owner].append(op)
                if op.outcome == "acquired":
                    self._told[op.name, op.fencing_token or 0] = op
            elif op.verb == "release" and op.outcome in ("released", "unknown"):
                self._releases[op.lease_id].append(op)
            elif op.verb == "force" and op.outcome == "released":
                self._forces[op.name, op.fencing_token or 0] = op
            elif op.verb == "force" and op.outcome == "unknown":
                self._unknown_forces[op.name].append(clock.lowest(op.invoked, math.inf))
        for times in self._unknown_forces.values():
            times.sort()

    def check(self, events: list[Event]) -> list[Violation]:
        found = []
        for event in events:
            asked = [op for op in self._acquires.get(event.owner, ()) if op.name == event.name]
            match event.kind:
                case "acquired":
                    has_cause = any(self._may_grant(op, event) for op in asked)
                case "released":
                    has_cause = self._may_release(asked, event)
                case "force_released":
                    has_cause = self._may_force(event)
                case _:
                    continue
            if not has_cause:
                what = f"{event.kind} of {event.fencing_token} ({event.owner}) has no request that may have caused it"
                found.append(Violation("audit", event.name, what, event.at, event.at))
        return found

    def _may_grant(self, op: Op, event: Event) -> bool:
        if op.waits:
            # Also a lock that was handed to it and not taken. A handover reads the clock before the queue, so it may be
            # dated before the request that gets it.
            until = math.inf if op.outcome == "unknown" else op.returned
            return event.at <= self._clock.highest(op.invoked, until) + ROUNDING
        if op.outcome == "unknown" or (op.outcome == "acquired" and op.fencing_token == event.fencing_token):
            return _may_be(self._clock, op, event.at)
        # A lease that expired before it could be told.
        end = self._ends.get((event.name, event.fencing_token))
        return end is not None and _may_be(self._clock, op, event.at) and _may_be(self._clock, op, end.over)

    def _may_release(self, asked: list[Op], event: Event) -> bool:
        """Its holder, the end of its session, or the server of a waiter that does not take it. The history says which
        of them it was."""
        grant = self._grants.get((event.name, event.fencing_token))
        told = self._told.get((event.name, event.fencing_token))
        if grant is None:
            return False
        if event.reason is None:
            # A lease can only be released with its id, so by a client that was told of it.
            releases = self._releases.get(told.lease_id, ()) if told is not None else ()
            return any(_may_be(self._clock, release, event.at) for release in releases)
        if event.reason == RETURNED:
            # A lease that was told is its client's, also if it was told to a retry only. That is decided by the time of
            # its last renewal, which a clock that was set does not show.
            is_steady = told is None or self._clock.is_steady(told.invoked, told.returned + MAX_TTL_SECONDS)
            is_taken = told is not None and is_steady
            return grant.place is not None and not is_taken and any(op.waits for op in asked)
        return any(self._may_end_with_session(op, grant, event) for op in asked)

    def _may_end_with_session(self, op: Op, grant: Event, event: Event) -> bool:
        """When it was ended, the session was; if it was being bound to the session at that time, it ended when it was
        granted. That may be recorded later, by the sweep."""
        session = self._sessions.get(op.session or "")
        if session is None:
            return False
        ended = grant.at + event.held
        for end in session.ends:
            if _may_be(self._clock, end, ended):
                return True
            until = math.inf if end.outcome == "unknown" else end.returned
            if event.held <= ROUNDING and op.invoked <= until and ended >= self._clock.lowest(end.invoked, until):
                return True
        return False

    def _may_force(self, event: Event) -> bool:
        known = self._forces.get((event.name, event.fencing_token))
        if known is not None:
            return _may_be(self._clock, known, event.at)
        return bisect.bisect_right(self._unknown_forces[event.name], event.at + ROUNDING) > 0
