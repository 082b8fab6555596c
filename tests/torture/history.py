"""What is recorded: the invocation and the answer of every request, for each name that it concerns."""

from typing import Literal

import msgspec

Verb = Literal["acquire", "renew", "release", "force", "inspect", "open_session", "keepalive", "end_session"]
Outcome = Literal[
    "acquired", "held", "delayed", "renewed", "released", "refused", "free", "none", "opened", "kept_alive", "ended",
    "unknown",
]  # fmt: skip


class Op(msgspec.Struct, kw_only=True):
    """Times are seconds of the one clock that clients and database share. `unknown` is the outcome of a request whose
    answer was lost or that was answered with 5xx: it may take effect at any time after its invocation. `refused` is
    `lease_not_current` or `session_expired`; `none` says nothing about the lock."""

    verb: Verb
    name: str
    invoked: float
    returned: float
    outcome: Outcome
    lease_id: str | None = None
    fencing_token: int | None = None
    acquired_at: float | None = None
    expires_at: float | None = None
    # The session that the lease is bound to, or that the request is about.
    session: str | None = None
    request_id: str | None = None
    waits: bool = False


class Event(msgspec.Struct, kw_only=True):
    """A row of the audit history. `place` is when a waiter got its place, by the database's clock."""

    id: int
    kind: str
    name: str
    fencing_token: int
    at: float
    request_id: str | None = None
    place: float | None = None


class Delivered(msgspec.Struct, kw_only=True):
    """An event that a watch delivered."""

    watch: int
    id: str
    kind: str
    name: str
    fencing_token: int


class Fault(msgspec.Struct, kw_only=True):
    """`recovered` is when the first request was answered after it; null if none was before the end."""

    kind: str
    began: float
    ended: float
    recovered: float | None = None


class History(msgspec.Struct, kw_only=True):
    seed: int
    ops: list[Op] = []
    events: list[Event] = []
    delivered: list[Delivered] = []
    faults: list[Fault] = []
    contradictions: list[str] = []
