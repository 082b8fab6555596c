"""What the server answers, as plain values. Fields that a server does not send are None."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple, TypeVar


class Held(NamedTuple):
    """Who has a lock that was asked for."""

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


class Delayed(NamedTuple):
    """When a lock opens that nobody holds."""

    name: str
    available_at: datetime | None = None
    lock_delay_seconds: int = 0
    retry_after_ms: int | None = None


class Lock(NamedTuple):
    """What is known of a name. `status` is free, held or delayed."""

    name: str
    status: str = "held"
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


class Released(NamedTuple):
    """Whom a force-release has taken the lock from."""

    name: str
    owner: str | None = None
    metadata: str | None = None
    fencing_token: int | None = None
    acquired_at: datetime | None = None
    expires_at: datetime | None = None


class SessionInfo(NamedTuple):
    session_id: str
    expires_at: datetime | None = None
    owner: str | None = None
    metadata: str | None = None
    lock_count: int = 0
    active: bool = True


class WatchEvent(NamedTuple):
    """What happened to a lock: `snapshot` (how it was when the watch began, with its `status`), `acquired`, `renewed`,
    `released`, `expired`, `force_released`. `id` is where another watch can go on."""

    event: str
    lock_name: str
    id: str | None = None
    status: str | None = None
    fencing_token: int | None = None
    owner: str | None = None
    metadata: str | None = None
    expires_at: datetime | None = None
    observed_at: datetime | None = None


class Identity(NamedTuple):
    """What a token is."""

    team: str
    space: str
    public_id: str
    name: str
    scopes: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    expires_at: datetime | None = None


class NewToken(NamedTuple):
    token: str
    public_id: str
    expires_at: datetime | None = None

    def __repr__(self) -> str:
        return f"NewToken(public_id={self.public_id!r})"


Answer = TypeVar("Answer", Held, Delayed, Lock, Released, SessionInfo, WatchEvent, NewToken)


def time(text: Any) -> datetime | None:
    """RFC 3339 in UTC, with as many digits as any server likes."""
    if not isinstance(text, str):
        return None
    whole, dot, fraction = text.replace("Z", "+00:00").partition(".")
    if dot:
        digits, sign, offset = fraction.partition("+")
        whole = f"{whole}.{digits[:6]:0<6}{sign}{offset}"
    return datetime.fromisoformat(whole)


def read(kind: type[Answer], told: dict[str, Any], **known: Any) -> Answer:
    """The fields of `kind` that the answer has; what it has besides is ignored."""
    told = {**told, **known}
    fields: dict[str, Any] = {
        field: time(told[field]) if field.endswith("_at") else told[field]
        for field in kind._fields
        if told.get(field) is not None
    }
    return kind(**fields)
