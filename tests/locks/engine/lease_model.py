"""A model of a lock: the simplest program that behaves as the engine must. Time is a number of seconds."""

from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID


@dataclass
class Lease:
    lease_id: UUID
    fencing_token: int
    holder: str
    owner: str
    metadata: str | None
    ttl: int
    delay: int
    key: str | None
    body: str | None
    expires: int


@dataclass
class Lock:
    lease: Lease | None = None
    closed_until: int = 0
    highest_token: int = 0
    events: list[tuple[str, int]] = field(default_factory=list)

    def status(self, now: int) -> Literal["held", "delayed", "free"]:
        if self.lease is None:
            return "delayed" if self.closed_until > now else "free"
        if self.lease.expires > now:
            return "held"
        return "delayed" if self.lease.expires + self.lease.delay > now else "free"

    def verdict_of_acquire(self, now: int, *, holder: str, key: str | None, body: str | None) -> str:
        status = self.status(now)
        if status == "free":
            return "acquired"
        if status == "held" and key is not None and (self.lease.holder, self.lease.key) == (holder, key):
            return "recognised" if self.lease.body == body else "idempotency_conflict"
        return status

    def begin(self, lease: Lease) -> None:
        """The engine has granted this lease; if the end of the one before was not recorded yet, it is now."""
        if self.lease is not None:
            self.events.append(("expired", self.lease.fencing_token))
        self.lease = lease
        self.highest_token = lease.fencing_token
        self.events.append(("acquired", lease.fencing_token))

    def verdict_of_holder(self, now: int, lease_id: UUID, holder: str, done: str) -> str:
        """Of renew and release: `done` if the lease is the current one and the holder's."""
        if self.status(now) != "held":
            return "not_held"
        return done if (self.lease.lease_id, self.lease.holder) == (lease_id, holder) else "held_by_another"

    def verdict_of_force(self, now: int, expected: int | None) -> str:
        if self.status(now) != "held":
            return "not_held"
        return "released" if expected in (None, self.lease.fencing_token) else "fencing_mismatch"

    def end(self, now: int, kind: str, delay: int) -> None:
        self.events.append((kind, self.lease.fencing_token))
        self.lease = None
        self.closed_until = now + delay
