"""What the operations return: the rows of the statements, field by field in the order of their columns."""

from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

# Why a free name is delayed, with `prefix`, `reason` and `until`; null if that is not a freeze.
Freeze: TypeAlias = dict[str, str]


class Acquired(msgspec.Struct):
    """If the verdict is `held` or `delayed`, the fields describe the current holder, and there is no lease id."""

    index: int
    verdict: str
    name: str
    lease_id: UUID | None
    fencing_token: int
    holder_id: str | None
    owner: str | None
    metadata: str | None
    acquired_at: datetime
    expires_at: datetime
    available_at: datetime | None
    lock_delay_seconds: int | None
    waiters: int
    now: datetime
    space_id: int | None
    max_ttl_seconds: int | None
    max_metadata_length: int | None
    requests_per_second: int | None
    # Live leases of names that overlap, if the name is of a namespace and was not acquired.
    blocked_by: list[dict[str, Any]] | None = None
    # The entry in the queue, if the request waits.
    waiter_id: int | None = None
    freeze: Freeze | None = None


class Claimed(msgspec.Struct):
    verdict: str
    name: str
    lease_id: UUID | None
    fencing_token: int
    owner: str | None
    metadata: str | None
    acquired_at: datetime
    expires_at: datetime
    available_at: datetime | None
    now: datetime
    space_id: int | None
    max_ttl_seconds: int | None
    max_metadata_length: int | None
    requests_per_second: int | None
    needs_handover: list[str] | None = None
    freeze: Freeze | None = None


class AcquireAllRow(msgspec.Struct):
    """One name of an acquire-all. The verdict is the same for all of them, and so are `blocked_by`, the live leases of
    other names that overlap, and `blocked_until`, the end of the cooldowns that do. `is_overlapped` says with which."""

    verdict: str
    name: str
    is_blocking: bool
    is_allowed: bool | None
    lease_id: UUID | None
    fencing_token: int
    holder_id: str | None
    owner: str | None
    metadata: str | None
    acquired_at: datetime
    expires_at: datetime
    available_at: datetime | None
    now: datetime
    space_id: int | None
    max_ttl_seconds: int | None
    max_metadata_length: int | None
    requests_per_second: int | None
    is_overlapped: bool = False
    blocked_by: list[dict[str, Any]] | None = None
    blocked_until: datetime | None = None
    freeze: Freeze | None = None


class Renewed(msgspec.Struct):
    index: int
    verdict: str
    name: str
    lease_id: UUID
    fencing_token: int
    expires_at: datetime
    now: datetime
    space_id: int | None
    max_ttl_seconds: int | None
    requests_per_second: int | None


class Released(msgspec.Struct):
    index: int
    verdict: str
    name: str
    lease_id: UUID
    fencing_token: int | None
    now: datetime
    space_id: int | None
    requests_per_second: int | None


class Inspected(msgspec.Struct):
    index: int
    verdict: str
    name: str
    fencing_token: int
    holder_id: str | None
    owner: str | None
    metadata: str | None
    acquired_at: datetime | None
    renewed_at: datetime | None
    expires_at: datetime | None
    session_id_present: bool
    available_at: datetime | None
    waiters: int
    # The first waiters, with `owner` and `since`; null if there are none.
    queue: list[dict[str, str]] | None
    now: datetime
    space_id: int | None
    requests_per_second: int | None
    acl: list[str] | None
    freeze: Freeze | None = None


class ReservationChanged(msgspec.Struct):
    verdict: str
    name: str
    fencing_token: int
    owner: str | None
    expires_at: datetime
    now: datetime


class AclSet(msgspec.Struct):
    verdict: str
    name: str
    acl: list[str] | None
    now: datetime
    space_id: int | None
    requests_per_second: int | None


class Checked(msgspec.Struct):
    """One name of a check. `blocked_by` are live leases of others that overlap with it."""

    verdict: str
    name: str
    policy: str | None
    is_covered: bool
    blocked_by: list[dict[str, Any]] | None
    now: datetime
    space_id: int | None
    requests_per_second: int | None


class Listed(msgspec.Struct):
    """One lock of a page. A page without locks is a single row whose name is null."""

    verdict: str
    total: int
    name: str | None
    status: str
    fencing_token: int
    holder_id: str | None
    owner: str | None
    metadata: str | None
    acquired_at: datetime | None
    renewed_at: datetime | None
    expires_at: datetime | None
    session_id_present: bool
    available_at: datetime | None
    waiters: int
    now: datetime
    space_id: int | None
    requests_per_second: int | None


class EndedAndHandedOver(msgspec.Struct):
    """If the lease was released, the fields describe it. Names of namespaces in `spaces_to_serve` may have to be handed
    over by another statement."""

    index: int
    verdict: str
    name: str
    lease_id: UUID | None
    fencing_token: int
    owner: str
    metadata: str | None
    acquired_at: datetime
    expires_at: datetime
    available_at: datetime | None
    event_id: int | None
    spaces_to_serve: list[int] | None
    servers_notified: int
    now: datetime
    space_id: int | None
    requests_per_second: int | None


ForceReleased: TypeAlias = EndedAndHandedOver


class Enqueued(msgspec.Struct):
    """An entry in the queue with its position, from 1. If the row was locked, the entry is not marked yet; a request
    with an idempotency key may have no entry yet and only a `queue_seq`. `replaced_waiter_ids` are the entries of
    earlier attempts, which this one has replaced. If the lock `is_free`, it has to be handed over."""

    index: int
    verdict: str
    waiter_id: int | None
    queue_seq: int
    replaced_waiter_ids: list[int] | None
    position: int
    is_free: bool
    space_id: int | None
    now: datetime


class Handover(msgspec.Struct):
    """A lease that was handed over to a waiter, or that has expired before it was claimed. A waiter that does not take
    it returns it, unless it was renewed after `returnable_until`: by a retry, or another request of its session."""

    waiter_id: int
    queue_seq: int
    verdict: str
    name: str
    lease_id: UUID | None
    fencing_token: int
    holder_id: str | None
    owner: str | None
    metadata: str | None
    acquired_at: datetime
    expires_at: datetime
    now: datetime
    space_id: int
    returnable_until: datetime


class Dequeued(msgspec.Struct):
    """`lease_id` is the lease that it was handed and had not claimed, if any."""

    waiter_id: int
    verdict: str
    space_id: int
    name: str
    lease_id: UUID | None
    position: int | None


class HeartbeatResult(msgspec.Struct):
    waiting: int
    handed: int


class LockKey(msgspec.Struct, frozen=True):
    space_id: int
    name: str


class FreeName(msgspec.Struct):
    """Without a name: names of namespaces in the space may have to be handed over."""

    space_id: int
    name: str | None


class NamespaceHandover(msgspec.Struct):
    space_id: int
    name: str
    serves_queue: bool


class SessionRow(msgspec.Struct):
    """A session. A list without any is a single row whose session id is null."""

    verdict: str
    session_id: UUID | None
    user_id: UUID
    owner: str
    metadata: str | None
    ttl_seconds: int
    created_at: datetime
    last_keepalive_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    lock_count: int
    active: bool
    now: datetime
    space_id: int | None
    max_metadata_length: int | None
    requests_per_second: int | None

    name = None


class KeptAlive(msgspec.Struct):
    index: int
    verdict: str
    session_id: UUID
    expires_at: datetime
    now: datetime
    space_id: int | None
    requests_per_second: int | None

    name = None


class SessionEnded(msgspec.Struct):
    verdict: str
    session_id: UUID
    now: datetime
    space_id: int | None
    requests_per_second: int | None

    name = None


class Swept(msgspec.Struct):
    """`spaces` and `names` are the locks that have to be handed over: they may have waiters, or had a session."""

    checked: int
    expired: int
    spaces: list[int] | None
    names: list[str] | None


class SweptSessions(msgspec.Struct):
    """`session_ids` are the sessions that are over and have to be cleaned up."""

    checked: int
    session_ids: list[UUID]


class Purged(msgspec.Struct):
    deleted: int
    last_id: int | None
