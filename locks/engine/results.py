"""What the operations answer: the rows of the statements, field by field in the order of their columns."""

from datetime import datetime
from uuid import UUID

import msgspec


class Acquired(msgspec.Struct):
    """The answer to acquire. Where the verdict is `held` or `delayed`, the fields tell of the current holder, and
    there is no lease id."""

    n: int
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
    unsettled: list[str] | None = None


class AcquireAllRow(msgspec.Struct):
    """One name of an acquire-all. The verdict is the same for all of them."""

    verdict: str
    name: str
    blocks: bool
    allowed: bool | None
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


class Renewed(msgspec.Struct):
    n: int
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
    n: int
    verdict: str
    name: str
    lease_id: UUID
    fencing_token: int | None
    now: datetime
    space_id: int | None
    requests_per_second: int | None


class ForceReleased(msgspec.Struct):
    n: int
    verdict: str
    name: str
    fencing_token: int
    owner: str
    metadata: str | None
    acquired_at: datetime
    expires_at: datetime
    available_at: datetime | None
    event_id: int | None
    now: datetime
    space_id: int | None
    requests_per_second: int | None


class Inspected(msgspec.Struct):
    n: int
    verdict: str
    name: str
    fencing_token: int | None
    holder_id: str | None
    owner: str | None
    metadata: str | None
    acquired_at: datetime | None
    renewed_at: datetime | None
    expires_at: datetime | None
    session_id_present: bool
    available_at: datetime | None
    waiters: int
    # Who stands in line, with `owner` and `since`; null where nobody does.
    in_line: list[dict[str, str]] | None
    now: datetime
    space_id: int | None
    requests_per_second: int | None


class Listed(msgspec.Struct):
    """One lock of a page. A page without locks is a single row whose name is null."""

    verdict: str
    total: int
    name: str | None
    status: str
    fencing_token: int | None
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
    """What became of one lock. Where it was released, the fields tell of who had it. `raced` are the names, of all that
    were settled, whose line somebody has joined meanwhile: they have to be settled once more."""

    n: int
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
    raced: list[str] | None
    servers_notified: int
    now: datetime
    space_id: int | None
    requests_per_second: int | None


class Enqueued(msgspec.Struct):
    """A place in line, from 1, or that there is none to be had, or none yet: then `queue_seq` is all there is.
    `replaced_waiter_id` is the place of a first try, gone now."""

    n: int
    verdict: str
    waiter_id: int
    queue_seq: int
    replaced_waiter_id: int | None
    position: int
    space_id: int | None
    now: datetime


class Handover(msgspec.Struct):
    """A lease that a waiter was handed, or that it came too late for."""

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


class Dequeued(msgspec.Struct):
    """The lease is the one it was handed and had not picked up, if any."""

    waiter_id: int
    verdict: str
    space_id: int
    name: str
    lease_id: UUID | None
    position: int | None


class HeartbeatResult(msgspec.Struct):
    waiting: int
    handed: int


class LockKey(msgspec.Struct):
    space_id: int
    name: str


class SessionRow(msgspec.Struct):
    """A session. A list without any is a single row whose session id is null."""

    verdict: str
    session_id: UUID | None
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
    n: int
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
