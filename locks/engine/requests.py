"""What the operations take. Each becomes one JSON object in the statement's parameter.

Values have been checked by the caller for type and form; what depends on the space (limits, rights) is checked by
the statement. Digests are hexadecimal.
"""

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


class Terms(Caller, kw_only=True):
    """What a new lease is to be like. Defaults that the space decides are null."""

    ttl_seconds: int | None = None
    metadata: str | None = None
    owner: str | None = None
    lock_delay_seconds: int = 0
    # Of the caller's Idempotency-Key, and of everything it asked for with it.
    idempotency_digest: str | None = None
    request_digest: str | None = None


class Acquire(Terms):
    name: str


class ClaimNext(Terms):
    names: list[str]


class AcquireAll(Terms):
    """The names are distinct."""

    names: list[str]


class Renew(Caller):
    name: str
    lease_id: UUID
    ttl_seconds: int | None = None


class Release(Caller):
    name: str
    lease_id: UUID


class ForceRelease(Caller, kw_only=True):
    """By a token, or, where the digest is null, by a person whom the caller has authorised for the space."""

    name: str
    reason: str
    guard: int | None = None
    lock_delay_seconds: int | None = None
    space_id: int | None = None
    user_id: int | None = None
    user_name: str | None = None
    # What else the event says: the batch it belongs to, for one.
    detail: dict[str, int | str] | None = None


class Listing(msgspec.Struct, kw_only=True, frozen=True):
    digest: str
    prefix: str = ""
    owner: str | None = None
    status: str = "held"
    sort: str = "name"
    limit: int = 100
    after_name: str = ""
    after_time: str | None = None
