"""An event as a watch sends it: JSON in a Server-Sent Event. It never contains a lease id."""

from datetime import datetime
from typing import Literal

import msgspec

from locks.events.stream import sse
from locks.events.stream.transitions import Transition

_encode = msgspec.json.Encoder().encode


class WatchEvent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`expires_at` comes with `acquired` and `renewed`, unless the lease had ended when the event was sent."""

    event: Literal["acquired", "renewed", "released", "expired", "force_released"]
    lock_name: str
    fencing_token: int | None = None
    owner: str | None = None
    metadata: str | None = None
    expires_at: datetime | None = None
    observed_at: datetime


def encode_transition(row: Transition) -> bytes:
    """Encoded once for all watchers: without the `id`, which differs between them."""
    return encode(
        WatchEvent(
            event=row.kind,  # type: ignore[arg-type]  # transitions.sql selects only these kinds
            lock_name=row.lock_name or "",
            fencing_token=row.fencing_token,
            owner=row.owner,
            metadata=row.metadata,
            expires_at=row.expires_at,
            observed_at=row.at or row.now,
        )
    )


def encode(event: WatchEvent) -> bytes:
    return sse.event(event.event, _encode(event))
