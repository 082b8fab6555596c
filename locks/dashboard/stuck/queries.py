"""What is stuck, and why: an inbox of held locks that need somebody, in sentences."""

from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, assert_never

from django.http import QueryDict

from locks.dashboard.durations import humanize, humanize_ms
from locks.dashboard.lock_row import LockRow
from locks.dashboard.page_number import parse_page
from locks.models import Space
from locks.services.stuck import stuck_rows

ROWS = 50


class Reason(StrEnum):
    """The worst first, as in sql/stuck.sql."""

    OVERDUE = "overdue"
    DEAD_TOKEN = "dead_token"  # noqa: S105 -- not one
    PAST_LONGEST = "past_longest"
    LATE = "late"
    FORGOTTEN = "forgotten"
    CROWDED = "crowded"


REASONS: dict[Reason, str] = {
    Reason.OVERDUE: "Overdue",
    Reason.DEAD_TOKEN: "Token no longer valid",
    Reason.PAST_LONGEST: "Past the longest hold",
    Reason.LATE: "Longer than usual",
    Reason.FORGOTTEN: "Not renewed with the others",
    Reason.CROWDED: "Many waiting",
}


@dataclass(frozen=True, kw_only=True)
class StuckFilter:
    reason: str = ""
    snoozed: bool = False
    page: int = 1

    @classmethod
    def of(cls, query: QueryDict) -> "StuckFilter":
        reason = query.get("reason", "")
        return cls(
            reason=reason if reason in set(Reason) else "",
            snoozed=query.get("show") == "snoozed",
            page=parse_page(query),
        )

    def query(self, *, page: int) -> str:
        parameters = QueryDict(mutable=True)
        if self.reason:
            parameters["reason"] = self.reason
        if self.snoozed:
            parameters["show"] = "snoozed"
        if page > 1:
            parameters["page"] = str(page)
        return f"?{parameters.urlencode()}" if parameters else "?"


@dataclass(frozen=True, kw_only=True)
class StuckLock:
    lock: LockRow
    is_overdue: bool
    has_dead_token: bool
    is_past_longest: bool
    is_late: bool
    is_forgotten: bool
    is_crowded: bool
    token_name: str | None
    token_ended_at: datetime | None
    token_revoked: bool | None
    usual_of: int | None
    median_ms: int | None
    p90_ms: int | None
    others_renewed_at: datetime | None
    others: int | None
    first_waits_since: datetime | None
    snoozed_until: datetime | None
    note: str | None
    snoozed_by: str | None
    snoozed_at: datetime | None

    @property
    def reasons(self) -> list[tuple[Reason, str]]:
        """Each with a sentence that says what is wrong and what follows if nobody does anything."""
        found = {
            Reason.OVERDUE: self.is_overdue,
            Reason.DEAD_TOKEN: self.has_dead_token,
            Reason.PAST_LONGEST: self.is_past_longest,
            Reason.LATE: self.is_late,
            Reason.FORGOTTEN: self.is_forgotten,
            Reason.CROWDED: self.is_crowded,
        }
        return [(reason, self._sentence(reason)) for reason, is_so in found.items() if is_so]

    def _sentence(self, reason: Reason) -> str:
        lock, ago = self.lock, self._ago
        match reason:
            case Reason.OVERDUE:
                return (
                    f"Ran out {ago(lock.effective_expires_at)} ago and nobody has tidied it up: is a worker running? "
                    "The next claim takes it."
                )
            case Reason.DEAD_TOKEN:
                ended = f"{'was revoked' if self.token_revoked else 'expired'} {ago(self.token_ended_at)} ago"
                return f"Its token {self.token_name} {ended}, so no renewal can come; {self._end}."
            case Reason.PAST_LONGEST:
                return (
                    f"Held for {ago(lock.acquired_at)}, longer than this space allows. "
                    f"Its next renewal is refused; {self._end}."
                )
            case Reason.LATE:
                return (
                    f"Held for {ago(lock.acquired_at)}; usually it takes {humanize_ms(self.median_ms or 0)}, and nine in "
                    f"ten of its last {self.usual_of} holds were over within {humanize_ms(self.p90_ms or 0)}."
                )
            case Reason.FORGOTTEN:
                others = "its other lock" if self.others == 1 else f"another of its {(self.others or 0) + 1} locks"
                return (
                    f"No heartbeat for {ago(lock.last_heartbeat_at)}, while {lock.owner} renewed {others} "
                    f"{ago(self.others_renewed_at)} ago: it may have forgotten this one."
                )
            case Reason.CROWDED:
                return f"{lock.waiters} are waiting for it, the first for {ago(self.first_waits_since)}."
        assert_never(reason)

    @property
    def tick(self) -> str:
        return f"{self.lock.id}:{self.lock.fencing_token}"

    @property
    def _end(self) -> str:
        left = (self.lock.effective_expires_at - self.lock.now).total_seconds() if self.lock.effective_expires_at else 0
        return f"it runs out in {humanize(left)}" if left > 0 else "it has run out"

    def _ago(self, moment: datetime | None) -> str:
        return "" if moment is None else humanize((self.lock.now - moment).total_seconds())


@dataclass(frozen=True, kw_only=True)
class Inbox:
    locks: list[StuckLock]
    stuck: int
    snoozed: int
    # How many there are for each reason; a lock can have several.
    by_reason: list[tuple[Reason, str, int]]
    now: datetime
    previous: str | None = None
    next: str | None = None

    def number_of(self, reason: str) -> int:
        return next((number for one, _words, number in self.by_reason if one == reason), self.stuck)


def inbox(*, space: Space, wanted: StuckFilter, limit: int = ROWS) -> Inbox:
    found = stuck_rows(
        space=space,
        limit=limit + 1,
        offset=(wanted.page - 1) * limit,
        snoozed=wanted.snoozed,
        reason=wanted.reason,
    )
    counts = found[0]
    listed = [_stuck_lock(row) for row in found if row["id"] is not None]
    return Inbox(
        locks=listed[:limit],
        stuck=counts["all_stuck"],
        snoozed=counts["all_snoozed"],
        by_reason=[(reason, words, counts[f"all_{reason}"]) for reason, words in REASONS.items()],
        now=counts["now"],
        previous=wanted.query(page=wanted.page - 1) if wanted.page > 1 else None,
        next=wanted.query(page=wanted.page + 1) if len(listed) > limit else None,
    )


_OF_HOLDING = [field.name for field in fields(LockRow)]
_OF_STUCK = [field.name for field in fields(StuckLock) if field.name != "lock"]


def _stuck_lock(row: dict[str, Any]) -> StuckLock:
    return StuckLock(
        lock=LockRow(**{name: row[name] for name in _OF_HOLDING}), **{name: row[name] for name in _OF_STUCK}
    )
