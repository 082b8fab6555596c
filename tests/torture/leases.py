"""What is certain about each lease and each session of a recorded history."""

import math
from dataclasses import dataclass, field

from tests.torture.clocks import DatabaseTime
from tests.torture.history import Event, Op

# No client asks for a longer lease.
MAX_TTL_SECONDS = 30.0


@dataclass(slots=True)
class Expiry:
    """Of a lease or a session, by the clock of the database: not before `expires_at`. An extension whose answer was
    lost was made before the end, if at all, so each of those adds one TTL at most."""

    expires_at: float = -math.inf
    # When it was granted; at first, and later if the grant was repeated.
    first_expires_at: float = -math.inf
    ttl: float = 0.0
    # Renewals, keepalives, and repetitions of the grant.
    extensions: list[Op] = field(default_factory=list)

    def extend(self, op: Op) -> None:
        if op.outcome == "unknown":
            self.extensions.append(op)
        elif op.expires_at is not None:
            self.extensions.append(op)
            self.expires_at = max(self.expires_at, op.expires_at)

    def latest_expiry(self, before: float = math.inf, without: Op | None = None) -> float:
        """It expired then at the latest, by what was asked for before that time of the clients."""
        latest, unknown = self.first_expires_at, 0
        for op in self.extensions:
            if op is without or op.invoked >= before:
                continue
            if op.expires_at is None:
                unknown += 1
            elif op.expires_at > latest:
                latest = op.expires_at
        return latest + unknown * self.ttl


@dataclass(slots=True)
class Session(Expiry):
    """Opened between `asked` and `opened`; ended not before `may_end`, and not after `has_ended`."""

    asked: float = math.inf
    opened: float = math.inf
    ends: list[Op] = field(default_factory=list)
    may_end: float = math.inf
    has_ended: float = math.inf


@dataclass(slots=True)
class Lease(Expiry):
    """Granted between `asked` and `granted`; over not before `may_end`, and not after `has_ended`, both without regard
    to the expiry. `ends_at` is a time of the database before which it did not end. The history says which of several
    requests ended it, so those whose outcome is unknown leave nothing open."""

    token: int = 0
    lease_id: str | None = None
    asked: float = math.inf
    granted: float = math.inf
    acquired_at: float | None = None
    may_end: float = math.inf
    has_ended: float = math.inf
    ends_at: float = -math.inf
    end: Event | None = None
    session: Session | None = None
    # Answered with `released`, by its holder or by force.
    releases: list[Op] = field(default_factory=list)

    def expires_before(self, moment: float) -> bool:
        """Whether it, or its session, may have expired at that time of the database."""
        session = self.session
        return self.expires_at <= moment or (session is not None and session.expires_at <= moment)

    def latest_end(self, before: float, without: Op | None = None) -> float:
        latest = self.latest_expiry(before, without)
        return latest if self.session is None else min(latest, self.session.latest_expiry(before))

    def resolve(self, end: Event | None, clock: DatabaseTime) -> None:
        self.end = end
        session = self.session
        if end is not None and end.kind != "expired":
            self.may_end = clock.reached(end.at, self.asked)
            self.ends_at = end.at
        elif end is not None and session is not None:
            self.may_end = clock.reached(end.over, self.asked)
            self.ends_at = end.over
        elif session is not None:
            self.ends_at = min(self.expires_at, session.expires_at)
        else:
            self.ends_at = self.expires_at if end is None else max(self.expires_at, end.over)
        if session is not None:
            # The sweep records it later if the lock was being bound when its session ended.
            self.may_end = min(self.may_end, session.may_end)
            self.has_ended = min(self.has_ended, session.has_ended)
            if end is None and session.ends:
                self.ends_at = -math.inf
        for op in self.releases:
            self.has_ended = min(self.has_ended, op.returned)
            self.ends_at = max(self.ends_at, clock.lowest(op.invoked, op.returned))


def sessions_of(ops: list[Op], clock: DatabaseTime) -> dict[str, Session]:
    sessions: dict[str, Session] = {}
    for op in ops:
        if op.verb == "open_session" and op.session is not None and op.expires_at is not None:
            ttl = op.expires_at - clock.lowest(op.invoked, op.returned)
            sessions[op.session] = Session(
                expires_at=op.expires_at, first_expires_at=op.expires_at, ttl=ttl, asked=op.invoked, opened=op.returned
            )
    for op in ops:
        session = sessions.get(op.session or "")
        if session is None:
            continue
        if op.verb == "keepalive":
            session.extend(op)
        elif op.verb == "end_session" and op.outcome in ("ended", "unknown"):
            session.ends.append(op)
            session.may_end = min(session.may_end, op.invoked)
            if op.outcome == "ended":
                session.has_ended = min(session.has_ended, op.returned)
    return sessions
