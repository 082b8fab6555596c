"""The requests and responses of the lock API: each type decodes or encodes JSON and is part of the OpenAPI document."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from locks.models.session import MAX_SESSION_SECONDS, MIN_SESSION_SECONDS, SESSION_SECONDS
from locks.models.space import MAX_METADATA, MAX_TTL_SECONDS

MAX_FENCING_TOKEN = 2**53 - 1
MAX_WAIT_SECONDS = 60
MAX_LOCK_DELAY_SECONDS = 60
# For the OpenAPI document only: values that do not match get errors of their own.
NAME_PATTERN = r"^\.*[\p{L}\p{N}_:@+=~-][\p{L}\p{N}._:@+=~-]*(/\.*[\p{L}\p{N}_:@+=~-][\p{L}\p{N}._:@+=~-]*)*$"
TEXT_PATTERN = r"^[^\u0000]*$"
REASON_PATTERN = r"^[^\u0000]*[^\s\u0000][^\u0000]*$"

# Limits that hold in every space. The statements check those of a space.
Name: TypeAlias = Annotated[
    str,
    Meta(min_length=1, max_length=256, examples=["deploy-main"], extra_json_schema={"pattern": NAME_PATTERN}),
]
Owner: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=128, examples=["runner-7"], extra_json_schema={"pattern": TEXT_PATTERN})
]
# The views check the bounds, because a value out of them is a 400 as in OctoStore, not a 422.
LockDelay: TypeAlias = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": MAX_LOCK_DELAY_SECONDS})]
WaitSeconds: TypeAlias = Annotated[
    int,
    Meta(ge=0, le=MAX_WAIT_SECONDS, description="How long to wait in the queue for a held lock. 0: do not wait."),
]
FencingToken: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_FENCING_TOKEN, examples=[1794801115558])]
# The views check the bounds, because a TTL out of range has its own error code, `invalid_ttl`.
Ttl: TypeAlias = Annotated[
    int,
    Meta(
        description="Whole seconds, from 1 to the maximum of the space (86,400 by default).",
        extra_json_schema={"minimum": 1, "maximum": MAX_TTL_SECONDS},
    ),
]
SessionTtl: TypeAlias = Annotated[
    int,
    Meta(
        description=f"Whole seconds. Less than {MIN_SESSION_SECONDS} counts as {MIN_SESSION_SECONDS}, more than "
        f"{MAX_SESSION_SECONDS} as {MAX_SESSION_SECONDS}.",
        extra_json_schema={"default": SESSION_SECONDS},
    ),
]
Metadata: TypeAlias = Annotated[
    str,
    Meta(
        description="Plain text, up to the limit of the space (1,024 characters by default).",
        examples=["host=runner-7 build=1842"],
        extra_json_schema={"maxLength": MAX_METADATA, "pattern": TEXT_PATTERN},
    ),
]
HolderId: TypeAlias = Annotated[
    str,
    Meta(description="A stable pseudonym of the holder's token and session.", extra_json_schema={"format": "uuid"}),
]
Milliseconds: TypeAlias = Annotated[int, Meta(ge=0)]
QueuePosition: TypeAlias = Annotated[int, Meta(ge=1)]


# Set if the name is frozen.
Frozen: TypeAlias = Literal[True] | UnsetType
FrozenPrefix: TypeAlias = (
    Annotated[str, Meta(description="New claims of names that start with it are refused. Empty: of all names.")]
    | UnsetType
)
FrozenReason: TypeAlias = Annotated[str, Meta(description="Why an operator froze it.")] | UnsetType


class Acl(msgspec.Struct, kw_only=True):
    """Who may acquire the lock: `user:` and the name of a token, or `token:` and its public id."""

    acquire: Annotated[list[str], Meta(examples=[["user:deploy-bot"]])]


class LeaseOptions(msgspec.Struct, kw_only=True):
    ttl_seconds: Ttl | None = None
    metadata: Metadata | None = None
    owner: Owner | None = None
    lock_delay_seconds: LockDelay | None = None
    session_id: Annotated[UUID, Meta(description="The lease ends with this session if `ephemeral`.")] | (None) = None
    ephemeral: (
        Annotated[bool, Meta(description="Default: true; false in a space with OctoStore compatibility.")] | None
    ) = None
    # Asks for protection: where it has no effect it is refused, not ignored.
    acl: Annotated[Any, Meta(description="Only in acquire.", extra_json_schema={"type": "null"})] = None


class AcquireBody(LeaseOptions, kw_only=True):
    wait_seconds: WaitSeconds | None = None
    acl: (
        Annotated[
            Acl | list[str],
            Meta(
                description="With the first lease, the lock gets this access list and keeps it: other tokens cannot "
                "acquire the lock. 1 to 100 names or public ids of tokens of the space, the caller's among them."
            ),
        ]
        | None
    ) = None


class SetAclBody(msgspec.Struct, kw_only=True):
    """Null removes the access list."""

    acl: Acl | list[str] | None


class ClaimNextBody(LeaseOptions, kw_only=True):
    names: Annotated[list[Name], Meta(min_length=1, max_length=1000)]


class CheckBody(msgspec.Struct, kw_only=True):
    names: Annotated[list[Name], Meta(min_length=1, max_length=1000)]
    lease_ids: Annotated[
        list[UUID], Meta(max_length=1000, description="The caller's own leases. They cover names and block none.")
    ] = []
    session_id: Annotated[UUID, Meta(description="The leases of this session are the caller's own too.")] | None = None


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


class LeaseToRenew(RenewBody, kw_only=True):
    name: Name


class LeaseToRelease(ReleaseBody, kw_only=True):
    name: Name


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
    """The caller holds the lease. `renew_after_ms` is half of the remaining time."""


class Held(msgspec.Struct, kw_only=True, tag_field="status", tag="held"):
    """Another holder has the lock."""

    name: str
    holder_id: HolderId
    owner: str
    metadata: str | None
    fencing_token: FencingToken
    acquired_at: datetime
    expires_at: datetime
    retry_after_ms: Milliseconds
    waiters: Annotated[int, Meta(ge=0)]
    # Set if the wait timed out.
    waited_ms: Milliseconds | UnsetType = UNSET
    queue_position: QueuePosition | UnsetType = UNSET
    blocked_by: (
        Annotated[
            list["BlockingLease"],
            Meta(
                max_length=100,
                description="In a namespace: the live leases of all names that overlap, the first of which is "
                "described above. If only requests that wait overlap, the leases that those wait for.",
            ),
        ]
        | UnsetType
    ) = UNSET


class BlockingLease(msgspec.Struct, kw_only=True):
    """A live lease of a name that overlaps. For a name outside of the token's prefixes, `owner` is empty and
    `metadata` null."""

    name: str
    owner: str
    metadata: str | None
    holder_id: HolderId
    fencing_token: FencingToken
    acquired_at: datetime
    expires_at: datetime


class Delayed(msgspec.Struct, kw_only=True, tag_field="status", tag="delayed"):
    """The lock is not held, but in the cooldown that its last holder asked for, or an operator has frozen it."""

    name: str
    available_at: datetime
    lock_delay_seconds: LockDelay
    retry_after_ms: Milliseconds
    frozen: Frozen = UNSET
    frozen_prefix: FrozenPrefix = UNSET
    reason: FrozenReason = UNSET
    waited_ms: Milliseconds | UnsetType = UNSET
    queue_position: QueuePosition | UnsetType = UNSET


class NoneFree(msgspec.Struct, kw_only=True, tag_field="status", tag="held"):
    """None of the names is free."""

    retry_after_ms: Milliseconds


class AllAcquired(msgspec.Struct, kw_only=True, tag_field="status", tag="acquired"):
    leases: list[Lease]


class Blocker(msgspec.Struct, kw_only=True):
    """A name that could not be acquired, or one of a namespace that overlaps with it. The fields of the holder are null
    during a cooldown."""

    name: str
    holder_id: HolderId | None
    owner: str | None
    metadata: str | None
    fencing_token: FencingToken
    acquired_at: datetime | None
    expires_at: datetime | None
    available_at: datetime | None


class AllHeld(msgspec.Struct, kw_only=True, tag_field="status", tag="held"):
    """Nothing was acquired."""

    blocked_by: list[Blocker]
    retry_after_ms: Milliseconds
    # Set if the wait timed out; the position is that in the last queue.
    waited_ms: Milliseconds | UnsetType = UNSET
    queue_position: QueuePosition | UnsetType = UNSET


class Conflict(msgspec.Struct, kw_only=True):
    name: str
    blocked_by: Annotated[list[BlockingLease], Meta(min_length=1, max_length=100)]


class Checked(msgspec.Struct, kw_only=True):
    """`conflicts` are the names that leases of others overlap with, `missing` those that no lease of the caller covers.
    What follows from them depends on the policy of the space."""

    decision: Literal["clear", "warn", "block"]
    policy: Literal["off", "warn", "require"]
    conflicts: list[Conflict]
    missing: list[str]


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


class AclSet(msgspec.Struct, kw_only=True):
    name: str
    acl: Acl | None


class QueueEntry(msgspec.Struct, kw_only=True):
    owner: str
    since: datetime


class Lock(msgspec.Struct, kw_only=True):
    """The state of a lock; most fields of a free lock are null. `fencing_token` is then the last one, 0 if the lock was
    not held for a long time. `in_line`, for a single lock only, has the first hundred waiters in their order."""

    name: str
    status: Literal["free", "held", "delayed"]
    owner: str | None = None
    holder_id: HolderId | None = None
    metadata: str | None = None
    fencing_token: FencingToken
    acquired_at: datetime | None = None
    renewed_at: datetime | None = None
    expires_at: datetime | None = None
    session_id_present: bool = False
    waiters: Annotated[int, Meta(ge=0)] = 0
    available_at: datetime | None = None
    frozen: Frozen = UNSET
    frozen_prefix: FrozenPrefix = UNSET
    reason: FrozenReason = UNSET
    in_line: list[QueueEntry] | UnsetType = UNSET
    # For a single lock that has one.
    acl: Acl | UnsetType = UNSET


class LockPage(msgspec.Struct, kw_only=True):
    """`total` is exact up to 10,000; beyond, `total_is_at_least` is true."""

    locks: list[Lock]
    total: Annotated[int, Meta(ge=0)]
    total_is_at_least: bool
    prefix: str
    next_cursor: str | None


class ReleaseResult(msgspec.Struct, kw_only=True):
    """If not `ok`, it has the error."""

    name: str
    ok: bool
    lease_id: UUID
    code: str | None = None
    details: str | None = None


class RenewResult(ReleaseResult, kw_only=True):
    """If `ok`, it has the renewed lease; otherwise the error."""

    fencing_token: FencingToken | None = None
    expires_at: datetime | None = None
    renew_after_ms: Milliseconds | None = None


class RenewResults(msgspec.Struct, kw_only=True):
    results: list[RenewResult]


class ReleaseResults(msgspec.Struct, kw_only=True):
    results: list[ReleaseResult]


class SessionOpened(msgspec.Struct, kw_only=True):
    """Send a keepalive at this interval; the session survives a missed one."""

    session_id: UUID
    expires_at: datetime
    keepalive_interval_secs: Annotated[int, Meta(ge=1)]
    ttl_seconds: Annotated[int, Meta(ge=MIN_SESSION_SECONDS, le=MAX_SESSION_SECONDS)]


class SessionKeptAlive(msgspec.Struct, kw_only=True):
    session_id: UUID
    expires_at: datetime


class Session(msgspec.Struct, kw_only=True):
    """A session that is not `active` has ended and holds no locks. `user_id` is a pseudonym of its token."""

    session_id: UUID
    user_id: UUID
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
