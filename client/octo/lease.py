"""What a lease or a session is, without I/O: ours until a deadline, unless it is renewed.

The deadline is counted from when the request was sent, so it is never later than the server's. Work that has passed it
must stop, whatever the server would say: that is what makes silence safe.
"""

from __future__ import annotations

import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import Any, TypeAlias

from octo import clock, errors, models
from octo.models import DEFAULT_TTL, MAX_SESSION_TTL, LeaseOptions, expect, parse_time
from octo.protocol import Request, backoff, election_path, lock_path

log = logging.getLogger("octo")


class Status(Enum):
    """LOST: the server said that it is over. UNCERTAIN: it could not be renewed in time and must be taken for over."""

    HELD = "held"
    RELEASED = "released"
    LOST = "lost"
    UNCERTAIN = "uncertain"


class LeaseEvent(Enum):
    RENEWED = "renewed"
    RENEW_FAILED = "renew_failed"
    RELEASED = "released"
    LOST = "lost"
    UNCERTAIN = "uncertain"


Observer: TypeAlias = Callable[[LeaseEvent, str], object]


def remaining_from(body: dict[str, Any], *, ttl: int | None) -> float:
    """Seconds from when the server answered: `renew_after_ms` is half of what was left then, by the server's clock."""
    if body.get("renew_after_ms") is None:
        return float(ttl or DEFAULT_TTL)
    remaining: float = expect(body, renew_after_ms=int)["renew_after_ms"] * 2 / 1000
    return min(remaining, float(ttl)) if ttl else remaining


class Renewable(ABC):
    """Thread-safe. Once over it stays over: nothing makes it HELD again."""

    label: str

    def __init__(self, *, sent_at: float, remaining: float) -> None:
        self._guard = threading.RLock()
        self._status = Status.HELD
        self._releasing = False
        self._failures = 0
        self._observers: list[Observer] = []
        # A renewal is on its way.
        self.in_flight = False
        self.deadline = 0.0
        self.renew_at = 0.0
        self.reason = ""
        self._extend(sent_at=sent_at, remaining=remaining)

    @property
    def status(self) -> Status:
        self.check_expired()
        return self._status

    @property
    def remaining(self) -> float:
        """Seconds for which it is certainly ours; 0 when it is over."""
        return max(0.0, self.deadline - clock.now()) if self.status is Status.HELD else 0.0

    def observe(self, observer: Observer) -> None:
        """Called with each event, on the thread that renews: it must not block."""
        self._observers.append(observer)

    @abstractmethod
    def renewal(self, *, timeout: float) -> Request:
        """The request that renews it."""

    @abstractmethod
    def parse_renewal(self, body: Any) -> float:
        """How many seconds an answer gives. Raises TransportError for an answer that is not about this renewal."""

    @property
    def batch_entry(self) -> dict[str, Any] | None:
        """Its entry in a request that renews many; None if it is renewed alone."""
        return None

    def renewed(self, body: Any, *, sent_at: float) -> None:
        """An answer that arrives after the deadline changes nothing."""
        remaining = self.parse_renewal(body)
        with self._guard:
            if self.check_expired() or self._releasing:
                return
            self._extend(sent_at=sent_at, remaining=remaining)
        self._notify(LeaseEvent.RENEWED)

    def reset_deadline(self, body: Any, *, sent_at: float) -> None:
        """For a lease that is not in use yet: the deadline of a later answer, even if the first one has passed."""
        remaining = self.parse_renewal(body)
        with self._guard:
            self._status = Status.HELD
            self._extend(sent_at=sent_at, remaining=remaining)

    def on_renew_failed(self, reason: str) -> None:
        """An attempt has failed, which says nothing about the lease: another follows."""
        with self._guard:
            if self._status is not Status.HELD or self._releasing:
                return
            now = clock.now()
            self._failures += 1
            self.renew_at = now + min(backoff(self._failures), max(0.05, (self.deadline - now) / 4))
        log.warning("%s could not be renewed, %.1f s before its end: %s", self.label, self.deadline - now, reason)
        self._notify(LeaseEvent.RENEW_FAILED, reason)

    def on_rejected(self, reason: str) -> None:
        """The server says that it is over. That is expected during a release: the two may overtake each other."""
        if not self._releasing:
            self.end(Status.LOST, reason)

    def begin_release(self) -> None:
        """From now on the outcome of renewals does not matter."""
        self._releasing = True

    def check_expired(self) -> bool:
        """Whether it is over; notices that the deadline has passed."""
        if self._status is Status.HELD and clock.now() >= self.deadline:
            self.end(Status.UNCERTAIN, "It could not be renewed before its deadline.")
        return self._status is not Status.HELD

    def end(self, status: Status, reason: str = "") -> None:
        with self._guard:
            if self._status is not Status.HELD:
                return
            self._status = status
            self.reason = reason
        if status is not Status.RELEASED and not self._releasing:
            log.error("%s is %s: %s", self.label, status.value, reason)
        self.on_end(status)
        self._notify(LeaseEvent(status.value), reason)

    def on_end(self, status: Status) -> None:  # noqa: B027 -- for subclasses, before observers are notified
        pass

    def _extend(self, *, sent_at: float, remaining: float) -> None:
        self._failures = 0
        self.deadline = max(self.deadline, sent_at + remaining)
        now = clock.now()
        self.renew_at = now + max(0.0, self.deadline - now) / 2

    def _notify(self, event: LeaseEvent, detail: str = "") -> None:
        for observer in tuple(self._observers):
            try:
                observer(event, detail)
            except Exception:
                log.exception("an observer of %s failed", self.label)


class LeaseBase(Renewable):
    """A lease that was granted to us."""

    def __init__(self, body: dict[str, Any], *, options: LeaseOptions, sent_at: float) -> None:
        expect(body, name=str, lease_id=str, fencing_token=int)
        self.name: str = body["name"]
        self.label = f"the lease of {self.name}"
        self.lease_id: str = body["lease_id"]
        self.fencing_token: int = body["fencing_token"]
        self.owner: str | None = body.get("owner", options.get("owner"))
        self.metadata: str | None = body.get("metadata", models.metadata_text(options.get("metadata")))
        self.ttl = options.get("ttl")
        self.session_id = options.get("session_id")
        self.acquired_at: datetime | None = parse_time(body.get("acquired_at"))
        self.expires_at: datetime | None = parse_time(body.get("expires_at"))
        self._pid = os.getpid()
        super().__init__(sent_at=sent_at, remaining=remaining_from(body, ttl=self.ttl))

    def __repr__(self) -> str:
        # The lease id is a secret.
        return f"<{type(self).__name__} {self.name} fencing_token={self.fencing_token} {self.status.value}>"

    @property
    def is_ours(self) -> bool:
        """False in a child that was forked while the lease was held: it belongs to the parent."""
        return self._pid == os.getpid()

    def owned(self) -> bool:
        """Whether the lease is certainly ours now."""
        return self.is_ours and self.status is Status.HELD

    @property
    def batch_entry(self) -> dict[str, Any] | None:
        entry: dict[str, Any] = {"name": self.name, "lease_id": self.lease_id}
        return entry if self.ttl is None else {**entry, "ttl_seconds": self.ttl}

    def renewal(self, *, timeout: float) -> Request:
        body = {field: value for field, value in (self.batch_entry or {}).items() if field != "name"}
        return Request("POST", lock_path(self.name, "renew"), body, timeout=timeout)

    def ending(self) -> Request:
        """The request that releases it."""
        return Request("POST", lock_path(self.name, "release"), {"lease_id": self.lease_id})

    def parse_ending(self, body: Any) -> None:
        """Raises TransportError for an answer that is not about the release."""
        models.expect_null(body)

    def parse_renewal(self, body: Any) -> float:
        expect(body, lease_id=str, expires_at=str)
        if body["lease_id"] != self.lease_id:
            raise models.invalid("our lease_id")
        remaining = remaining_from(body, ttl=self.ttl)
        self.expires_at = parse_time(body["expires_at"])
        return remaining

    def check(self) -> None:
        """Raises unless the lease is certainly ours. For loops: call it before each step that must be exclusive."""
        if (ended := self.error()) is not None:
            raise ended

    def error(self) -> errors.LeaseEnded | None:
        status = self.status
        if status is Status.UNCERTAIN:
            return errors.LeaseUncertain(f"The lease of {self.name} may be over. {self.reason}", name=self.name)
        if status is not Status.HELD:
            reason = self.reason or "It was released."
            return errors.LeaseLost(f"The lease of {self.name} is over. {reason}", name=self.name)
        return None


class TermBase(LeaseBase):
    """The leadership of a room: a lease with requests of its own."""

    @property
    def batch_entry(self) -> dict[str, Any] | None:
        return None

    def renewal(self, *, timeout: float) -> Request:
        body = {"leader_token": self.lease_id, **({} if self.ttl is None else {"ttl_seconds": self.ttl})}
        return Request("POST", election_path(self.name, "renew"), body, timeout=timeout)

    def parse_renewal(self, body: Any) -> float:
        leader = expect(expect(body, leader=dict, leader_token=str, renew_after_ms=int)["leader"], term=int)
        if leader["term"] != self.fencing_token:
            raise models.invalid("our term")
        self.expires_at = parse_time(leader.get("expires_at"))
        return remaining_from(body, ttl=self.ttl)

    def ending(self) -> Request:
        return Request("POST", election_path(self.name, "resign"), {"leader_token": self.lease_id})

    def parse_ending(self, body: Any) -> None:
        expect(body, election_id=str, status=str)


class SessionBase(Renewable):
    """Kept alive as a lease is renewed. When it is over, so are its leases."""

    label = "the session"

    def __init__(self, *, ttl: int) -> None:
        self.ttl = min(ttl, MAX_SESSION_TTL)
        self.session_id = ""
        self.expires_at: datetime | None = None
        self._leases: list[LeaseBase] = []

    def opened(self, body: dict[str, Any], *, sent_at: float) -> None:
        self.session_id = body["session_id"]
        self.label = f"the session {self.session_id}"
        self.expires_at = parse_time(body["expires_at"])
        super().__init__(sent_at=sent_at, remaining=self.ttl)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.status.value if self.session_id else 'not open'}>"

    def attach(self, lease: LeaseBase) -> None:
        self._leases = [other for other in self._leases if other.status is Status.HELD]
        self._leases.append(lease)

    def renewal(self, *, timeout: float) -> Request:
        return Request("POST", f"/sessions/{self.session_id}/keepalive", {}, timeout=timeout)

    def parse_renewal(self, body: Any) -> float:
        expect(body, session_id=str, expires_at=str)
        if body["session_id"] != self.session_id:
            raise models.invalid("our session_id")
        self.expires_at = parse_time(body["expires_at"])
        return float(self.ttl)

    def on_end(self, status: Status) -> None:
        for lease in self._leases:
            lease.end(status, "Its session is over.")
