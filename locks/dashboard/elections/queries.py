"""The rooms of elections that have a leader."""

from dataclasses import dataclass
from datetime import datetime

from locks.dashboard.database import fetch
from locks.models import Space

ROWS = 500


@dataclass(frozen=True, kw_only=True)
class Room:
    room: str
    leader: str
    metadata: str | None
    term: int
    acquired_at: datetime
    expires_at: datetime
    now: datetime


def rooms(space: Space) -> list[Room]:
    """The oldest leaders first; one more than are shown, if there are more."""
    return fetch("elections/rooms", Room, {"space_id": space.pk, "limit": ROWS + 1})
