"""Stuck: the locks that need attention, each with its reasons as sentences."""

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from locks.dashboard.durations import humanize, humanize_ms
from locks.dashboard.filters import Filters
from locks.dashboard.untrusted_text import isolate
from locks.services.stuck import Reason, StuckLock

ROWS = 50


@dataclass(frozen=True, kw_only=True)
class StuckFilters(Filters):
    CHOICES = {"reason": set(Reason), "show": ("snoozed",)}
    NARROWING = ("reason",)

    reason: str = ""
    show: str = ""

    @property
    def snoozed(self) -> bool:
        return bool(self.show)


def describe_reasons(stuck: StuckLock) -> list[tuple[Reason, str]]:
    """Each with a sentence: what is wrong, and what follows without action."""
    return [(reason, _describe(stuck, reason)) for reason in stuck.reasons]


def _describe(stuck: StuckLock, reason: Reason) -> str:
    lock = stuck.lock

    def ago(moment: datetime | None) -> str:
        return "" if moment is None else humanize((lock.now - moment).total_seconds())

    match reason:
        case Reason.OVERDUE:
            return (
                f"Expired {ago(lock.effective_expires_at)} ago, not reclaimed: is a worker running? "
                "The next claim acquires it."
            )
        case Reason.INVALID_TOKEN:
            ended = f"{'was revoked' if stuck.token_is_revoked else 'expired'} {ago(stuck.token_ended_at)} ago"
            return f"Its token {stuck.token_name} {ended}, so it cannot be renewed; {_describe_end(stuck)}."
        case Reason.MAX_HOLD:
            return (
                f"Held for {ago(lock.acquired_at)}, longer than this space allows. "
                f"Its next renewal is rejected; {_describe_end(stuck)}."
            )
        case Reason.LONG_HOLD:
            return (
                f"Held for {ago(lock.acquired_at)}; its last {stuck.sample_size} holds: "
                f"p50 {humanize_ms(stuck.median_ms or 0)}, p90 {humanize_ms(stuck.p90_ms or 0)}."
            )
        case Reason.NOT_RENEWED:
            others = "its other lock" if stuck.others == 1 else f"another of its {(stuck.others or 0) + 1} locks"
            return (
                f"No heartbeat for {ago(lock.last_heartbeat_at)}, while {isolate(lock.owner)} renewed {others} "
                f"{ago(stuck.others_renewed_at)} ago."
            )
        case Reason.RELEASE_REQUESTED:
            more = (stuck.requests or 1) - 1
            by = f"{stuck.requested_by} and {more} more" if more else stuck.requested_by
            return f"Release requested by {by} {ago(stuck.requested_at)} ago: {isolate(stuck.request_reason)}"
        case Reason.LONG_QUEUE:
            return f"{lock.waiters} waiting, the first for {ago(stuck.first_enqueued_at)}."
    assert_never(reason)


def _describe_end(stuck: StuckLock) -> str:
    expires_at = stuck.lock.effective_expires_at
    left = (expires_at - stuck.lock.now).total_seconds() if expires_at else 0
    return f"it expires in {humanize(left)}" if left > 0 else "it has expired"
