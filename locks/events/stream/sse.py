"""Events as they go over the wire: Server-Sent Events with JSON in them. There is never a lease id."""

from datetime import datetime
from typing import Literal

import msgspec

from locks.events.stream.cursors import Cursor
from locks.events.stream.transitions import Transition

_encode = msgspec.json.Encoder().encode


class WatchEvent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`expires_at` comes with `acquired` and `renewed`, unless the lease was over when it was told."""

    event: Literal["acquired", "renewed", "released", "expired", "force_released"]
    lock_name: str
    fencing_token: int | None = None
    owner: str | None = None
    metadata: str | None = None
    expires_at: datetime | None = None
    observed_at: datetime


def of_transition(row: Transition) -> bytes:
    """Without its `id`, which differs from watcher to watcher; otherwise made once for all of them."""
    return message(
        WatchEvent(
            event=row.kind,  # type: ignore[arg-type]
            lock_name=row.lock_name or "",
            fencing_token=row.fencing_token,
            owner=row.owner,
            metadata=row.metadata,
            expires_at=row.expires_at,
            observed_at=row.at or row.now,
        )
    )


def message(event: WatchEvent) -> bytes:
    return named(event.event, _encode(event))


def named(event: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.encode(), data)


def id_line(bookmark: Cursor) -> bytes:
    return b"id: %s\n" % str(bookmark).encode()


def comment(text: str) -> bytes:
    return f": {text}\n\n".encode()
