"""A lock in its present state, as the view octo_lock_row_v2 has it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from locks.models import Space


class State(StrEnum):
    """Decided by octo_lock_state_v2. `expiring` has missed the renewal that was due; `overdue` has expired and was
    neither reclaimed nor acquired since."""

    OVERDUE = "overdue"
    EXPIRING = "expiring"
    COOLDOWN = "cooldown"
    HELD = "held"
    FREE = "free"

    @property
    def label(self) -> str:
        return "Cooling down" if self is State.COOLDOWN else self.value.capitalize()


@dataclass(frozen=True, kw_only=True)
class LockRow:
    id: int
    space_id: int
    name: str
    state: State
    fencing_token: int
    owner: str | None
    holder_id: str | None
    metadata: str | None
    # The TTL of what ends it: its own, or that of the session it is bound to.
    effective_ttl: int | None
    acquired_at: datetime | None
    # Of the lease or of its session.
    last_heartbeat_at: datetime | None
    is_heartbeating: bool | None
    effective_expires_at: datetime | None
    available_at: datetime | None
    renewals: int | None
    # Bound to a session, with which it ends.
    in_session: bool
    # A person holds it until its end, without renewals.
    is_reserved: bool
    waiters: int
    now: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", State(self.state))

    @property
    def is_live(self) -> bool:
        """Held now, so it can be force-released."""
        return self.state in (State.HELD, State.EXPIRING)

    @property
    def is_late(self) -> bool:
        """Held, but its last heartbeat is longer ago than the server advised."""
        return self.is_live and not self.is_heartbeating

    @property
    def selection_value(self) -> str:
        """Identifies the hold, not the name: a selection does not carry over to the next holder."""
        return f"{self.id}:{self.fencing_token}"

    @property
    def ends_at(self) -> datetime | None:
        """The end of the countdown."""
        return self.available_at if self.state is State.COOLDOWN else self.effective_expires_at

    @property
    def remaining_percent(self) -> float:
        if self.ends_at is None:
            return 0
        ttl = timedelta(seconds=self.effective_ttl or 60)
        return round(max(0.0, min(1.0, (self.ends_at - self.now) / ttl)) * 100, 1)

    @property
    def next_change_at(self) -> datetime | None:
        """When the state changes unless the lock does; the page refreshes then."""
        if self.is_reserved:
            return self.effective_expires_at
        if self.state is State.HELD and self.effective_expires_at is not None and self.effective_ttl is not None:
            return self.effective_expires_at - min(timedelta(seconds=30), timedelta(seconds=self.effective_ttl) / 3)
        return self.ends_at if self.state in (State.EXPIRING, State.COOLDOWN) else None

    def max_hold_ends_at(self, space: Space) -> datetime | None:
        if self.acquired_at is None or space.max_hold_seconds is None:
            return None
        return self.acquired_at + timedelta(seconds=space.max_hold_seconds)
