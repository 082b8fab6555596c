"""A lock as the pages show it: its state in one word, and what follows from its times."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from locks.dashboard.metadata import Chip, chips
from locks.models import Space

# A holder without a renewal so far counts as alive for this long at most.
MAX_FIRST_SILENCE = timedelta(seconds=60)


class State(StrEnum):
    """As sql/ decides it: `expiring` means less than 30 s and less than a third of its TTL is left, so it has missed
    the renewal that was due at half. `overdue` has run out, and nobody has claimed it since."""

    OVERDUE = "overdue"
    EXPIRING = "expiring"
    DELAYED = "delayed"
    HELD = "held"
    FREE = "free"

    @property
    def word(self) -> str:
        return self.value.capitalize()


@dataclass(frozen=True, kw_only=True)
class LockRow:
    id: int
    name: str
    state: State
    fencing_token: int
    owner: str | None
    metadata: str | None
    # The TTL of what ends it: its own, or that of the session it is tied to.
    effective_ttl: int | None
    acquired_at: datetime | None
    # The last heartbeat, its own or its session's.
    last_heartbeat_at: datetime | None
    effective_expires_at: datetime | None
    available_at: datetime | None
    renewals: int | None
    # Tied to a session, with which it ends.
    in_session: bool
    waiters: int
    now: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", State(self.state))

    @property
    def chips(self) -> list[Chip]:
        return chips(self.metadata)

    @property
    def is_live(self) -> bool:
        """Somebody holds it now, so it can be taken from them."""
        return self.state in (State.HELD, State.EXPIRING)

    @property
    def ends_at(self) -> datetime | None:
        """What the countdown runs to."""
        return self.available_at if self.state is State.DELAYED else self.effective_expires_at

    @property
    def share_left(self) -> float:
        """Of its time, in percent."""
        if self.ends_at is None:
            return 0
        whole = timedelta(seconds=self.effective_ttl or 60)
        return round(max(0.0, min(1.0, (self.ends_at - self.now) / whole)) * 100, 1)

    @property
    def is_heartbeating(self) -> bool:
        """Its holder has renewed about as often as it used to, so it is probably at work."""
        if not self.is_live or self.last_heartbeat_at is None or self.acquired_at is None or self.effective_ttl is None:
            return False
        # A session's heartbeats are not counted with the lock's renewals.
        if self.renewals and not self.in_session:
            usual = (self.last_heartbeat_at - self.acquired_at) / self.renewals
        else:
            usual = min(timedelta(seconds=self.effective_ttl) / 2, MAX_FIRST_SILENCE)
        return self.now - self.last_heartbeat_at <= usual * 1.5 + timedelta(seconds=2)

    @property
    def next_change_at(self) -> datetime | None:
        """When its state will change if nobody does anything: the page looks again then."""
        if self.state is State.HELD and self.effective_expires_at is not None and self.effective_ttl is not None:
            return self.effective_expires_at - min(timedelta(seconds=30), timedelta(seconds=self.effective_ttl) / 3)
        return self.ends_at if self.state in (State.EXPIRING, State.DELAYED) else None


def longest_hold_ends_at(holding: LockRow, space: Space) -> datetime | None:
    if holding.acquired_at is None or space.max_hold_seconds is None:
        return None
    return holding.acquired_at + timedelta(seconds=space.max_hold_seconds)
