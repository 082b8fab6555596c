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
    # Of an acquire: no other request has it, except one that repeats it. The history names it too.
    owner: str | None = None
    # The owner is the idempotency key too.
    has_key: bool = False
    waits: bool = False
    # How long it waited until the time was up, by its server.
    waited: float | None = None
    # How many names an acquire-all is for; there is an Op of each.
    all_of: int = 0
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


class Spell(msgspec.Struct, kw_only=True, array_like=True, tag="spell", gc=False):
    """In which no request waited at a server: from the answer to the last one to the invocation of the next."""

    server: int
    began: float
    ended: float


class Event(msgspec.Struct, kw_only=True, gc=False):
    """A row of the audit history. `place` is when a waiter got its place, by the database's clock; `late` is how long
    after the end of a lease its expiry was recorded; `held` is how long the lease lasted, and `reason` why it ended."""

    id: int
    kind: str
    name: str
    fencing_token: int
    at: float
    owner: str | None = None
    place: float | None = None
    late: float = 0.0
    held: float = 0.0
    reason: str | None = None

    @property
    def over(self) -> float:
        """When the lease ended."""
        return self.at - self.late


class Place(msgspec.Struct, kw_only=True, gc=False):
    """A request in the queue of a name. `at` is when it got its place, by the database's clock and before the commit;
    `seen` is when the queue was first read with it, and `last` when a reading began that still showed it."""

    name: str
    owner: str
    at: float
    seen: float
    last: float


class Delivered(msgspec.Struct, kw_only=True, gc=False):
    """An event that a watch delivered, and when."""

    watch: int
    kind: str
    name: str
    fencing_token: int
    at: float = 0.0


class Fault(msgspec.Struct, kw_only=True):
    """`recovered` is when all servers answered again; null if they did not. `error` says why it did not happen, or
    not to the end."""

    kind: str
    began: float
    ended: float
    recovered: float | None = None
    error: str | None = None

    @property
    def is_kill(self) -> bool:
        """What is killed starts again by itself, so the recovery begins with the fault."""
        return self.kind.startswith("kill")


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
    places: list[Place] = []
    spells: list[Spell] = []
    # The numbers of all watches that were started.
    watches: list[int] = []
    # Kinds of faults that are unavailable here.
    unavailable: list[str] = []
    contradictions: list[str] = []
