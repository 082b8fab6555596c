"""What the operations take. Each becomes one JSON object in the statement's parameter.

Values have been checked by the caller for type and form; what depends on the space (limits, rights) is checked by
the statement. Digests are hexadecimal.
"""

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec


class Caller(msgspec.Struct, kw_only=True):
    """Who asks, and by which way. `n` is the place in the batch, set by the engine."""

    digest: str | None
    request_id: str | None = None
    channel: str = "api"
    address: str | None = None
    n: int = 0


class Inspect(Caller):
    name: str


class LeaseOptions(Caller, kw_only=True):
    """What a new lease is to be like. Defaults that the space decides are null."""

    ttl_seconds: int | None = None
    metadata: str | None = None
    owner: str | None = None
    lock_delay_seconds: int = 0
    # One of the caller's sessions, and whether the lease is to end with it.
    session_id: UUID | None = None
    ephemeral: bool = True
    # Of the caller's Idempotency-Key, and of everything it asked for with it.
    idempotency_digest: str | None = None
    request_digest: str | None = None


class Acquire(LeaseOptions):
    name: str


class ClaimNext(LeaseOptions):
    names: list[str]


class AcquireAll(LeaseOptions):
    """The names are distinct. `handed_lease_id` is a lease of one of them that stands for all while the others are tried."""

    names: list[str]
    handed_lease_id: UUID | None = None


class Enqueue(Acquire, kw_only=True):
    """A place in line, at a server process. Who has stood in line before keeps its `queue_seq`; who has lost a place in
    this one `is_requeue`."""

    server_id: UUID
    wait_ms: int
    queue_seq: int | None = None
    is_requeue: bool = False


class Renew(Caller):
    name: str
    lease_id: UUID
    ttl_seconds: int | None = None


class Release(Caller):
    name: str
    lease_id: UUID


class ForceRelease(Caller, kw_only=True):
    """By a token, or, where the digest is null, by somebody whom the caller has authorised for the space."""

    name: str
    reason: str
    guard: int | None = None
    lock_delay_seconds: int | None = None
    space_id: int | None = None
    actor_kind: str = "user"
    actor_id: int | None = None
    actor_name: str | None = None
    # What else the event says: the batch it belongs to, for one.
    detail: dict[str, int | str] | None = None


class EndAndHandOver(Caller, kw_only=True):
    """To end what is over and hand it on; with an `ending`, what is not over too. By a token for its own space, or by
    whoever may do so for the space that is named. A session, alone, instead of a name: with all that is tied to it."""

    name: str = ""
    session_id: UUID | None = None
    ending: Literal["release", "force", "leave", "session"] | None = None
    lease_id: UUID | None = None
    guard: int | None = None
    reason: str | None = None
    lock_delay_seconds: int | None = None
    space_id: int | None = None
    actor_kind: str = "user"
    actor_id: int | None = None
    actor_name: str | None = None
    detail: dict[str, int | str] | None = None
    # Of whoever leaves: when it picked the lease up, if it did.
    renewed_at: datetime | None = None


class OpenSession(Caller, kw_only=True):
    ttl_seconds: int = 60
    owner: str | None = None
    metadata: str | None = None


class SessionRef(Caller, kw_only=True):
    session_id: UUID


class Listing(msgspec.Struct, kw_only=True, frozen=True):
    digest: str
    prefix: str = ""
    owner: str | None = None
    status: str = "held"
    sort: str = "name"
    limit: int = 100
    after_name: str = ""
    after_time: str | None = None
