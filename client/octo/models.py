"""The records of the API as plain values. Fields that a server does not send are None."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar

from octo.errors import TransportError

Metadata: TypeAlias = "str | Mapping[str, object] | None"
Encoding: TypeAlias = Literal["json", "text", "base64"]
OnWait: TypeAlias = "Callable[[Holder], object]"

# The contract's default, for servers that do not say how long a lease is.
DEFAULT_TTL = 60
DEFAULT_SESSION_TTL = 60
MAX_SESSION_TTL = 300
JOB_TTL = 120
# How the names of fields end that are times.
_TIMES = ("_at", "until")


class LeaseOptions(TypedDict, total=False):
    """`ttl`: seconds. `lock_delay`: how long the name stays closed after us. `ephemeral=False`: the lease outlives its
    session."""

    ttl: int | None
    owner: str | None
    metadata: Metadata
    lock_delay: int | None
    session_id: str | None
    ephemeral: bool | None


class AcquireOptions(LeaseOptions, total=False):
    """`wait`: how many seconds to wait for the lock; None or 0 raises LockHeld at once, `math.inf` waits for ever."""

    wait: float | None
    on_wait: OnWait | None
    idempotency_key: str | None


class Holder(NamedTuple):
    """The lease that stands in the way of a request."""

    name: str
    owner: str | None = None
    holder_id: str | None = None
    metadata: str | None = None
    fencing_token: int | None = None
    acquired_at: datetime | None = None
    expires_at: datetime | None = None
    available_at: datetime | None = None
    retry_after_ms: int | None = None
    waiters: int = 0
    queue_position: int | None = None


class LockDelay(NamedTuple):
    """Until when a name stays closed: after its last holder or, if it is `frozen`, by an operator, who says why."""

    name: str
    available_at: datetime | None = None
    lock_delay_seconds: int = 0
    retry_after_ms: int | None = None
    frozen: bool = False
    frozen_prefix: str | None = None
    reason: str | None = None


class Freeze(NamedTuple):
    """New claims of names that start with `prefix`, or of all if it is empty, are refused until then."""

    id: int
    prefix: str
    reason: str
    until: datetime
    created_at: datetime | None = None
    created_by: str | None = None


class LockInfo(NamedTuple):
    """The state of a lock."""

    name: str
    status: Literal["free", "held", "delayed"]
    owner: str | None = None
    holder_id: str | None = None
    metadata: str | None = None
    fencing_token: int | None = None
    acquired_at: datetime | None = None
    renewed_at: datetime | None = None
    expires_at: datetime | None = None
    session_id_present: bool = False
    waiters: int = 0
    available_at: datetime | None = None
    frozen: bool = False
    frozen_prefix: str | None = None
    reason: str | None = None


class NameConflict(NamedTuple):
    """The leases of others that overlap a name."""

    name: str
    blocked_by: tuple[Holder, ...] = ()


class LockCheck(NamedTuple):
    """`missing`: the names that no lease of yours covers. `policy` is the space's."""

    decision: Literal["clear", "warn", "block"]
    policy: Literal["off", "warn", "require"]
    conflicts: tuple[NameConflict, ...] = ()
    missing: tuple[str, ...] = ()


class PreviousHolder(NamedTuple):
    """The lease that a force-release ended."""

    name: str
    fencing_token: int
    owner: str | None = None
    metadata: str | None = None
    acquired_at: datetime | None = None
    expires_at: datetime | None = None


class SessionInfo(NamedTuple):
    session_id: str
    expires_at: datetime
    owner: str | None = None
    metadata: str | None = None
    lock_count: int = 0
    active: bool = True


class WatchEvent(NamedTuple):
    """`event` is snapshot (the state when the watch began, in `status`), acquired, renewed, released, expired or
    force_released. A later watch can resume after `id`."""

    event: str
    lock_name: str
    id: str | None = None
    status: str | None = None
    fencing_token: int | None = None
    owner: str | None = None
    metadata: str | None = None
    expires_at: datetime | None = None
    observed_at: datetime | None = None


class ElectionInfo(NamedTuple):
    """The state of a room; without a leader, `candidate_id` and `term` are None."""

    election_id: str
    status: Literal["leader", "vacant"]
    candidate_id: str | None = None
    metadata: str | None = None
    term: int | None = None
    expires_at: datetime | None = None
    retry_after_ms: int | None = None
    observed_at: datetime | None = None


class Entry(NamedTuple):
    """`value` is JSON, text, or bytes, as it was written."""

    path: str
    version: int
    value: Any = None
    encoding: Encoding = "json"
    written_by: str | None = None
    written_at: datetime | None = None


class EntryInfo(NamedTuple):
    """An entry without its value."""

    path: str
    version: int
    encoding: Encoding = "json"
    size: int = 0
    written_by: str | None = None
    written_at: datetime | None = None


class RunInfo(NamedTuple):
    """`layers` and `held` only if one run was asked for: the tree with its actors, and the leases."""

    run_id: str
    name: str
    state: Literal["active", "draining", "finished"]
    metadata: str | None = None
    lead: str | None = None
    layer_count: int = 0
    actors_present: int = 0
    leases: int = 0
    waiting: int = 0
    created_at: datetime | None = None
    last_sign_of_life_at: datetime | None = None
    draining_at: datetime | None = None
    finished_at: datetime | None = None
    finish_reason: str | None = None
    layers: tuple[dict[str, Any], ...] = ()
    held: tuple[dict[str, Any], ...] = ()


class TokenInfo(NamedTuple):
    public_id: str
    name: str
    scopes: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    expires_at: datetime | None = None
    team: str = ""
    space: str = ""


class NewToken(NamedTuple):
    token: str
    public_id: str
    expires_at: datetime | None = None

    def __repr__(self) -> str:
        return f"NewToken(public_id={self.public_id!r})"


Record = TypeVar(
    "Record", Holder, LockDelay, LockInfo, PreviousHolder, SessionInfo, WatchEvent, ElectionInfo, Entry, EntryInfo,
    RunInfo, TokenInfo, NewToken, Freeze,
)  # fmt: skip


def invalid(expected: str) -> TransportError:
    return TransportError(f"The answer is not one of the lock API (expected {expected}); does a proxy answer instead?")


def expect(body: Any, **fields: type | tuple[type, ...]) -> dict[str, Any]:
    """The body, if it is an object that has all of these fields with these types."""
    if not isinstance(body, dict):
        raise invalid("an object")
    for field, kind in fields.items():
        value = body.get(field)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise invalid(field)
    return body


def expect_null(body: Any) -> None:
    if body is not None:
        raise invalid("null")


def parse_time(text: Any) -> datetime | None:
    """RFC 3339, with any number of digits."""
    if text is None:
        return None
    try:
        whole, dot, fraction = text.replace("Z", "+00:00").partition(".")
        if dot:
            digits, sign, offset = fraction.partition("+")
            whole = f"{whole}.{digits[:6]:0<6}{sign}{offset}"
        return datetime.fromisoformat(whole).astimezone(timezone.utc)
    except (AttributeError, ValueError):
        raise invalid("a timestamp") from None


def format_time(time: datetime | None) -> str | None:
    return time.astimezone(timezone.utc).isoformat().replace("+00:00", "Z") if time else None


def parse(kind: type[Record], body: Any, **known: Any) -> Record:
    """The fields of `kind` that the body has; others are ignored. A body without the required ones is invalid."""
    content = {**expect(body), **known}
    fields: dict[str, Any] = {
        field: parse_time(value) if field.endswith(_TIMES) else tuple(value) if isinstance(value, list) else value
        for field in kind._fields
        if (value := content.get(field)) is not None
    }
    try:
        return kind(**fields)
    except TypeError:
        raise invalid(f"a {kind.__name__}") from None


def metadata_text(metadata: Metadata) -> str | None:
    """Metadata is plain text; a mapping becomes `key=value` pairs, which the dashboard shows one by one."""
    if metadata is None or isinstance(metadata, str):
        return metadata
    texts = {key: str(value) for key, value in metadata.items()}
    return " ".join(
        f"{key}={text}" if re.fullmatch(r"[^\s\"']+", text) else f'{key}="{text.replace(chr(34), chr(39))}"'
        for key, text in texts.items()
    )


def lease_body(options: LeaseOptions) -> dict[str, Any]:
    """What a request for a lease says."""
    body = {
        "ttl_seconds": options.get("ttl"),
        "owner": options.get("owner"),
        "metadata": metadata_text(options.get("metadata")),
        "lock_delay_seconds": options.get("lock_delay"),
        "session_id": options.get("session_id"),
        "ephemeral": options.get("ephemeral"),
    }
    return {field: value for field, value in body.items() if value is not None}


def entry_body(value: Any, encoding: Encoding | None) -> dict[str, Any]:
    if isinstance(value, bytes):
        return {"value": base64.b64encode(value).decode(), "encoding": "base64"}
    return {"value": value, "encoding": encoding or "json"}
