"""Owner: what one owner holds and waits for, and how its holds ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from locks.dashboard.database import fetch
from locks.dashboard.lock.queries import Hold, Percentiles, holds_of_many, percentiles
from locks.dashboard.now.queries import LockListFilters
from locks.dashboard.owners.queries import Owner, holders
from locks.events.history.filters import Filter, Visibility, select
from locks.models import Event, EventKind, Space, Token, TokenClient
from locks.services.lock_row import LockRow

LOCKS = 50
WAITS = 50
HOLDS = 25
# The history is looked at so far back, and at most so many holds of it.
HISTORY = timedelta(days=7)
MAX_HOLDS = 1_000


@dataclass(frozen=True, kw_only=True)
class Wait:
    name: str
    enqueued_at: datetime
    holder: str | None
    position: int
    now: datetime


@dataclass(frozen=True, kw_only=True)
class HoldOutcomes:
    """How the ended holds of an owner ended."""

    ended: int
    expired: int
    forced: int
    # There were more: these are the latest.
    is_truncated: bool
    percentiles: Percentiles | None

    @property
    def failure_percent(self) -> float:
        """The share that the owner did not release itself."""
        return round(100 * (self.expired + self.forced) / self.ended, 1) if self.ended else 0.0


@dataclass(frozen=True, kw_only=True)
class LastAcquire:
    """Of a reservation, only the event."""

    event: Event
    token: Token | None
    user_agent: str | None


@dataclass(frozen=True, kw_only=True)
class OwnerDetail:
    owner: str
    holders: list[Owner]
    locks: list[LockRow]
    waits: list[Wait]
    holds: list[Hold]
    outcomes: HoldOutcomes
    last_acquire: LastAcquire | None
    now: datetime

    @property
    def holding(self) -> int:
        return sum(holder.holding + holder.overdue for holder in self.holders)


def owner_detail(*, space: Space, owner: str) -> OwnerDetail | None:
    """None if the owner is unknown here, now and in the history."""
    present = holders(space=space, owner=owner)
    # Without a row the database's clock was not read; for the history the server's is exact enough.
    now = present[0].now if present else timezone.now()
    ended = holds_of_many(space=space, filters=Filter(owner=owner, since=now - HISTORY), limit=MAX_HOLDS)
    last_acquire = _last_acquire(space, owner)
    if not (present or ended or last_acquire):
        return None
    filters = LockListFilters(owner=owner).sql_parameters(space)
    return OwnerDetail(
        owner=owner, holders=present,
        locks=fetch("now/lock_list", LockRow, {**filters, "sort": "severity", "rows": LOCKS, "skipped": 0}),
        waits=fetch("owner/waits", Wait, {"space_id": space.pk, "owner": owner, "rows": WAITS}),
        holds=ended[:HOLDS], outcomes=_outcomes(ended), last_acquire=last_acquire, now=now,
    )  # fmt: skip


def _outcomes(ended: Sequence[Hold]) -> HoldOutcomes:
    kinds = [hold.end_kind for hold in ended]
    return HoldOutcomes(
        ended=len(ended), expired=kinds.count(EventKind.EXPIRED), forced=kinds.count(EventKind.FORCE_RELEASED),
        is_truncated=len(ended) >= MAX_HOLDS, percentiles=percentiles(ended),
    )  # fmt: skip


def _last_acquire(space: Space, owner: str) -> LastAcquire | None:
    acquired = select(Visibility(space_id=space.pk), Filter(owner=owner, kinds=(EventKind.ACQUIRED,)))
    event = acquired.order_by("-at", "-id").first()
    if event is None:
        return None
    if event.token_id is None:
        return LastAcquire(event=event, token=None, user_agent=None)
    client = TokenClient.objects.filter(token_id=event.token_id, address=event.address).select_related("token").first()
    token = client.token if client else Token.objects.filter(pk=event.token_id).first()
    return LastAcquire(event=event, token=token, user_agent=client.user_agent if client else None)
