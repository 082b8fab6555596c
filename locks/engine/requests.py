"""What the operations take. Each becomes one JSON object in the statement's parameter.

The caller has validated types and formats; what depends on the space (limits, permissions) is checked by the statement.
Digests are hexadecimal.
"""

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec


class Caller(msgspec.Struct, kw_only=True):
    """The token that sends the request, and how it came. `index` is the position in the batch, set by the engine."""

    digest: str | None
    request_id: str | None = None
    channel: str = "api"
    address: str | None = None
    index: int = 0


class Inspect(Caller):
    name: str


class LeaseOptions(Caller, kw_only=True):
    """What the new lease is like. Null options get the space's defaults."""

    ttl_seconds: int | None = None
    metadata: str | None = None
    owner: str | None = None
    lock_delay_seconds: int = 0
    # One of the token's sessions, and whether the lease ends with it; null: it does, except on OctoStore's terms.
    session_id: UUID | None = None
    ephemeral: bool | None = None
    # Of the Idempotency-Key, and of the whole request sent with it.
    idempotency_digest: str | None = None
    request_digest: str | None = None
    # The access list that the lock gets, sorted; only acquire sets one.
    acl: list[str] | None = None


class Acquire(LeaseOptions):
    """With `wait_ms` the request joins the queue, at that server process, if it does not get the lock; `queue_seq` is
    when it arrived (see database_clock), null for the time of the statement. If it `is_alone` in its batch, it may wait
    for the guard of a namespace; the engine sets that."""

    name: str
    server_id: UUID | None = None
    wait_ms: int | None = None
    queue_seq: int | None = None
    is_alone: bool = False


class Reserve(Acquire, kw_only=True):
    """By a person, the `owner`, who was authorised for the space before. There is no digest."""

    user_id: int
    space_id: int


class ChangeReservation(msgspec.Struct, kw_only=True, frozen=True):
    """By the person who has it, the actor: more time, or another owner."""

    space_id: int
    name: str
    expected_fencing_token: int
    actor_id: int
    actor_name: str
    extend_seconds: int | None = None
    new_user_id: int | None = None
    new_owner: str | None = None
    channel: str = "web"
    address: str | None = None
    request_id: str | None = None


class Check(Caller):
    """The caller's own leases, by their ids or their session, cover names and block none."""

    names: list[str]
    lease_ids: list[UUID]
    session_id: UUID | None


class ClaimNext(LeaseOptions):
    names: list[str]


class AcquireAll(LeaseOptions):
    """The names are distinct. `handed_lease_id` is a lease of one of them that was handed over while the request
    waited."""

    names: list[str]
    handed_lease_id: UUID | None = None


class Enqueue(Acquire, kw_only=True):
    """An entry in the queue, at a server process. A request that has waited before keeps its `queue_seq`; one that
    has lost its entry in the same queue sets `is_requeue`. `waiter_id` is an entry that is not marked yet."""

    waiter_id: int | None = None
    is_requeue: bool = False


class SetAcl(Caller):
    """Without a list, every token may acquire the lock again."""

    name: str
    acl: list[str] | None


class Renew(Caller):
    name: str
    lease_id: UUID
    ttl_seconds: int | None = None


class Release(Caller):
    name: str
    lease_id: UUID


class EndAndHandOver(Caller, kw_only=True):
    """Ends a lease that is over and hands the lock over; with an `end_mode`, also one that is not over. By a token
    for its own space or, without a digest, by an actor that was authorised for `space_id` before. With end_mode
    `session`, which all requests of the batch must have, a session and all locks bound to it. If it `serves_queue`, the
    name is of a namespace of `space_id` and is handed over if it is its turn in the space."""

    name: str = ""
    session_id: UUID | None = None
    end_mode: Literal["release", "force", "leave", "session"] | None = None
    lease_id: UUID | None = None
    expected_fencing_token: int | None = None
    reason: str | None = None
    lock_delay_seconds: int | None = None
    space_id: int | None = None
    actor_kind: str = "user"
    actor_id: int | None = None
    actor_name: str | None = None
    # Stored with the event, for example the bulk release that it belongs to.
    detail: dict[str, int | str] | None = None
    serves_queue: bool = False
    # With end_mode `leave`: the lease is not ended if it was renewed after this. Null: after it was granted.
    returnable_until: datetime | None = None


class ForceRelease(EndAndHandOver, kw_only=True):
    """If the lock has another fencing token than expected, nothing happens."""

    name: str
    reason: str
    end_mode: Literal["force"] = "force"


class OpenSession(Caller, kw_only=True):
    ttl_seconds: int = 60
    owner: str | None = None
    metadata: str | None = None


class SessionRef(Caller, kw_only=True):
    session_id: UUID


class Listing(msgspec.Struct, kw_only=True, frozen=True):
    digest: str
    prefix: str = ""
    # For a run's actor: of all names that belong to runs and layers, only those that start with one of these.
    visible_run_names: tuple[str, ...] | None = None
    owner: str | None = None
    status: str = "held"
    sort: str = "name"
    limit: int = 100
    after_name: str = ""
    after_time: str | None = None
