"""What is recorded: the invocation and the answer of every request, for each name that it concerns."""

from typing import Literal

import msgspec

Verb = Literal["acquire", "renew", "release", "force", "inspect", "open_session", "keepalive", "end_session"]
Outcome = Literal[
    "acquired", "held", "delayed", "renewed", "released", "refused", "free", "none", "opened", "kept_alive", "ended",
    "unknown",
]  # fmt: skip


class Op(msgspec.Struct, kw_only=True, array_like=True, tag="lock", gc=False):
    """`invoked` and `returned` are by the clock of the clients, `acquired_at` and `expires_at` by that of the database:
    the same one, except after a ClockStep. `unknown` is the outcome of a request whose
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
    # Of an acquire that was answered.
    request_id: str | None = None
    waits: bool = False
    # Names that a claim-next had before the one that it got.
    passed_over: list[str] | None = None


class KvOp(msgspec.Struct, kw_only=True, array_like=True, tag="store", gc=False):
    """A request to the store. `version` is what was read, written, or named by a `mismatch`; 0 if there was no entry.
    `expected` makes it a compare-and-swap. `value` is what was read or written; no value is written twice."""

    verb: Literal["get", "put", "delete"]
    name: str
    invoked: float
    returned: float
    outcome: Literal["ok", "absent", "mismatch", "none", "unknown"]
    version: int | None = None
    expected: int | None = None
    value: int | None = None


class Event(msgspec.Struct, kw_only=True, gc=False):
    """A row of the audit history. `place` is when a waiter got its place, by the database's clock."""

    id: int
    kind: str
    name: str
    fencing_token: int
    at: float
    request_id: str | None = None
    place: float | None = None


class Delivered(msgspec.Struct, kw_only=True, gc=False):
    """An event that a watch delivered."""

    watch: int
    kind: str
    name: str
    fencing_token: int


class Fault(msgspec.Struct, kw_only=True):
    """`recovered` is when the first request was answered after it; null if none was before the end."""

    kind: str
    began: float
    ended: float
    recovered: float | None = None


class ClockStep(msgspec.Struct, kw_only=True):
    """The clock of the database was set, some time from `began` to `ended`; from then on it is `offset` seconds ahead
    of that of the clients."""

    began: float
    ended: float
    offset: float


class History(msgspec.Struct, kw_only=True):
    seed: int
    ops: list[Op] = []
    kv_ops: list[KvOp] = []
    events: list[Event] = []
    delivered: list[Delivered] = []
    faults: list[Fault] = []
    clock_steps: list[ClockStep] = []
    # When a server process had sent no heartbeat for a while: its waiters may be passed over.
    stalls: list[tuple[float, float]] = []
    contradictions: list[str] = []
