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


class AcquiredTogether(msgspec.Struct):
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
