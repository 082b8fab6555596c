"""The requests and answers of the lock API, each defined once: for decoding, for encoding and for the schema."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from locks.models.session import MAX_SESSION_SECONDS, MIN_SESSION_SECONDS, SESSION_SECONDS
from locks.models.space import MAX_METADATA, MAX_TTL_SECONDS

MAX_FENCING_TOKEN = 2**53 - 1
MAX_WAIT_SECONDS = 60
# For the schema only: what breaks these gets an answer of its own, not that of a wrong type.
NAME_PATTERN = r"^\.*[\p{L}\p{N}_:@+=~-][\p{L}\p{N}._:@+=~-]*(/\.*[\p{L}\p{N}_:@+=~-][\p{L}\p{N}._:@+=~-]*)*$"
TEXT_PATTERN = r"^[^\u0000]*$"
REASON_PATTERN = r"^[^\u0000]*[^\s\u0000][^\u0000]*$"

# What a database can keep. The rest of the limits depends on the space.
Name: TypeAlias = Annotated[
    str,
    Meta(min_length=1, max_length=256, examples=["deploy-main"], extra_json_schema={"pattern": NAME_PATTERN}),
]
Owner: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=128, examples=["runner-7"], extra_json_schema={"pattern": TEXT_PATTERN})
]
LockDelay: TypeAlias = Annotated[int, Meta(ge=0, le=60)]
WaitSeconds: TypeAlias = Annotated[
    int, Meta(ge=0, le=MAX_WAIT_SECONDS, description="How long to stand in line for what is held. 0: not at all.")
]
FencingToken: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_FENCING_TOKEN, examples=[1794801115558])]
# Out of range is `invalid_ttl` and not a type error, so the bounds are the view's to check.
Ttl: TypeAlias = Annotated[
    int,
    Meta(
        description="Whole seconds, from 1 to the space's maximum (86,400 unless set).",
        extra_json_schema={"minimum": 1, "maximum": MAX_TTL_SECONDS},
    ),
]
# Likewise.
SessionTtl: TypeAlias = Annotated[
    int,
    Meta(
        description="Whole seconds.",
        extra_json_schema={
            "minimum": MIN_SESSION_SECONDS, "maximum": MAX_SESSION_SECONDS, "default": SESSION_SECONDS
        },
    ),
]  # fmt: skip
Metadata: TypeAlias = Annotated[
    str,
    Meta(
        description="Plain text, up to the space's limit (1,024 characters unless set).",
        examples=["host=runner-7 build=1842"],
        extra_json_schema={"maxLength": MAX_METADATA, "pattern": TEXT_PATTERN},
    ),
]
Milliseconds: TypeAlias = Annotated[int, Meta(ge=0)]
QueuePosition: TypeAlias = Annotated[int, Meta(ge=1)]


class LeaseOptions(msgspec.Struct, kw_only=True):
    ttl_seconds: Ttl | None = None
    metadata: Metadata | None = None
    owner: Owner | None = None
    lock_delay_seconds: LockDelay | None = None
    session_id: Annotated[UUID, Meta(description="The lease ends with this session, unless `ephemeral` is false.")] | (
        None
    ) = None
    ephemeral: bool | None = None


class AcquireBody(LeaseOptions, kw_only=True):
    wait_seconds: WaitSeconds | None = None


class ClaimNextBody(LeaseOptions, kw_only=True):
    names: Annotated[list[Name], Meta(min_length=1, max_length=1000)]


class AcquireAllBody(LeaseOptions, kw_only=True):
    names: Annotated[list[Name], Meta(min_length=1, max_length=100)]
    wait_seconds: WaitSeconds | None = None


class RenewBody(msgspec.Struct, kw_only=True):
    lease_id: UUID
    ttl_seconds: Ttl | None = None


class ReleaseBody(msgspec.Struct, kw_only=True):
    lease_id: UUID


class ForceReleaseBody(msgspec.Struct, kw_only=True):
    reason: Annotated[
        str,
        Meta(min_length=1, max_length=500, examples=["host is gone"], extra_json_schema={"pattern": REASON_PATTERN}),
    ]
    fencing_token: FencingToken | None = None
    lock_delay_seconds: LockDelay | None = None


class LeaseToRenew(msgspec.Struct, kw_only=True):
    name: Name
    lease_id: UUID
    ttl_seconds: Ttl | None = None


class LeaseToRelease(msgspec.Struct, kw_only=True):
    name: Name
    lease_id: UUID


class RenewAllBody(msgspec.Struct, kw_only=True):
    leases: Annotated[list[LeaseToRenew], Meta(min_length=1, max_length=1000)]


class ReleaseAllBody(msgspec.Struct, kw_only=True):
    leases: Annotated[list[LeaseToRelease], Meta(min_length=1, max_length=1000)]


class OpenSessionBody(msgspec.Struct, kw_only=True):
    ttl_seconds: SessionTtl | None = None
    owner: Owner | None = None
    metadata: Metadata | None = None


class Lease(msgspec.Struct, kw_only=True):
    name: str
    lease_id: UUID
    fencing_token: FencingToken
    owner: str
    metadata: str | None
    acquired_at: datetime
    expires_at: datetime
    renew_after_ms: Milliseconds


class Acquired(Lease, kw_only=True, tag_field="status", tag="acquired"):
    """The lease is yours. `renew_after_ms` is half of what is left of it."""


class Held(msgspec.Struct, kw_only=True, tag_field="status", tag="held"):
    """Somebody else holds it. `holder_id` is a stable pseudonym of the holder's token and session."""

    name: str
    holder_id: str
    owner: str
    metadata: str | None
    fencing_token: FencingToken
    acquired_at: datetime
    expires_at: datetime
    retry_after_ms: Milliseconds
    waiters: Annotated[int, Meta(ge=0)]
    # After a wait in vain.
    waited_ms: Milliseconds | UnsetType = UNSET
    queue_position: QueuePosition | UnsetType = UNSET


class Delayed(msgspec.Struct, kw_only=True, tag_field="status", tag="delayed"):
    """Nobody holds it, but the last holder asked that the name stay closed for a while."""

    name: str
    available_at: datetime
    lock_delay_seconds: LockDelay
    retry_after_ms: Milliseconds
    waited_ms: Milliseconds | UnsetType = UNSET
    queue_position: QueuePosition | UnsetType = UNSET


class NoneFree(msgspec.Struct, kw_only=True, tag_field="status", tag="held"):
    """None of the names is free."""

    retry_after_ms: Milliseconds


class AllAcquired(msgspec.Struct, kw_only=True, tag_field="status", tag="acquired"):
    leases: list[Lease]


class Blocker(msgspec.Struct, kw_only=True):
    """A name that could not be had. Who holds it is null where the name is only closed for a while."""

    name: str
    holder_id: str | None
    owner: str | None
    metadata: str | None
    fencing_token: FencingToken
    expires_at: datetime | None
    available_at: datetime | None


class AllHeld(msgspec.Struct, kw_only=True, tag_field="status", tag="held"):
    """Nothing was acquired."""

    blocked_by: list[Blocker]
    retry_after_ms: Milliseconds
    # After a wait in vain; the position is that in the line where it stood last.
    waited_ms: Milliseconds | UnsetType = UNSET
    queue_position: QueuePosition | UnsetType = UNSET


class Renewed(msgspec.Struct, kw_only=True):
    lease_id: UUID
    fencing_token: FencingToken
    expires_at: datetime
    renew_after_ms: Milliseconds


class PreviousHolder(msgspec.Struct, kw_only=True):
    owner: str
    metadata: str | None
    fencing_token: FencingToken
    acquired_at: datetime
    expires_at: datetime


class ForceReleased(msgspec.Struct, kw_only=True, tag_field="status", tag="released"):
    name: str
    previous: PreviousHolder


class QueueEntry(msgspec.Struct, kw_only=True):
    owner: str
    since: datetime


class Lock(msgspec.Struct, kw_only=True):
    """What is known of a name. A lock that is free has nulls. `in_line` is there for a single lock that somebody waits
    for: the first hundred, in order."""

    name: str
    status: Literal["free", "held", "delayed"]
    owner: str | None = None
    holder_id: str | None = None
    metadata: str | None = None
    fencing_token: FencingToken | None = None
    acquired_at: datetime | None = None
    renewed_at: datetime | None = None
    expires_at: datetime | None = None
    session_id_present: bool = False
    waiters: Annotated[int, Meta(ge=0)] = 0
    available_at: datetime | None = None
    in_line: list[QueueEntry] | UnsetType = UNSET


class LockPage(msgspec.Struct, kw_only=True):
    """`total` is exact up to 10,000; beyond, `total_is_at_least` is true."""

    locks: list[Lock]
    total: Annotated[int, Meta(ge=0)]
    total_is_at_least: bool
    prefix: str
    next_cursor: str | None


class RenewResult(msgspec.Struct, kw_only=True):
    """`ok`, and the renewed lease; or why not."""

    name: str
    ok: bool
    lease_id: UUID
    fencing_token: FencingToken | None = None
    expires_at: datetime | None = None
    renew_after_ms: Milliseconds | None = None
    code: str | None = None
    details: str | None = None


class RenewResults(msgspec.Struct, kw_only=True):
    results: list[RenewResult]


class ReleaseResult(msgspec.Struct, kw_only=True):
    name: str
    ok: bool
    lease_id: UUID
    code: str | None = None
    details: str | None = None


class ReleaseResults(msgspec.Struct, kw_only=True):
    results: list[ReleaseResult]


class SessionOpened(msgspec.Struct, kw_only=True):
    """Send a keepalive at least this often; a missed one does no harm yet."""

    session_id: UUID
    expires_at: datetime
    keepalive_interval_secs: Annotated[int, Meta(ge=1)]


class SessionKeptAlive(msgspec.Struct, kw_only=True):
    session_id: UUID
    expires_at: datetime


class Session(msgspec.Struct, kw_only=True):
    """A running process, or one that was. One that is not `active` holds nothing any more."""

    session_id: UUID
    owner: str
    metadata: str | None
    ttl_seconds: int
    created_at: datetime
    kept_alive_at: datetime
    expires_at: datetime
    lock_count: Annotated[int, Meta(ge=0)]
    active: bool


class Sessions(msgspec.Struct, kw_only=True):
    sessions: list[Session]
