"""Who holds a lock, and from where."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from locks.dashboard.database import fetch
from locks.models import Space


@dataclass(frozen=True, kw_only=True)
class Origin:
    lock_id: int
    holder_id: str
    token_name: str
    token_public_id: str
    # None once the history no longer has it.
    event_id: int | None
    address: str | None
    # What last used the token from that address.
    user_agent: str | None
    # None without a session, whose id is a secret.
    session_opened_at: datetime | None
    last_keepalive_at: datetime | None


def origins_of(*, space: Space, lock_ids: Sequence[int]) -> dict[int, Origin]:
    """By lock; free locks have none."""
    if not lock_ids:
        return {}
    rows = fetch("origins", Origin, {"space_id": space.pk, "lock_ids": list(lock_ids)})
    return {row.lock_id: row for row in rows}
