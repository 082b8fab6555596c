"""Renews what is held, at half of what is left, and notices what is over. One such call runs for a whole client."""

from __future__ import annotations

import threading
from typing import Any

from octo import clock, errors
from octo.exchange import refused
from octo.steps import ANSWER_SECONDS, Call, Pause, Request, Response
from octo.tenure import Tenure

# A thread sleeps on a clock that may stop with the machine: nothing is noticed later than this after it wakes.
LONGEST_SLEEP = 1.0
MOST_TOGETHER = 1000
# What is due this soon is renewed along with what is due now.
TOGETHER_SECONDS = 0.25


class Book:
    """What a client keeps alive. Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._kept: list[Tenure] = []
        # A server that does not know renew-all is asked one by one.
        self.knows_renew_all = True

    def add(self, tenure: Tenure) -> None:
        with self._guard:
            if tenure not in self._kept:
                self._kept.append(tenure)

    def discard(self, tenure: Tenure) -> None:
        with self._guard:
            if tenure in self._kept:
                self._kept.remove(tenure)

    def clear(self) -> None:
        with self._guard:
            self._kept.clear()

    def is_empty(self) -> bool:
        return not self._kept

    def current(self) -> list[Tenure]:
        """What is still held, once everything that is over was told so."""
        with self._guard:
            kept = list(self._kept)
        over = [tenure for tenure in kept if tenure.expire()]
        for tenure in over:
            self.discard(tenure)
        return [tenure for tenure in kept if tenure not in over]


def keep(book: Book) -> Call[None]:
    """Ends when nothing is left to keep."""
    while current := book.current():
        now = clock.now()
        soonest = min(tenure.renew_at for tenure in current)
        if soonest > now:
            yield Pause(min(LONGEST_SLEEP, soonest - now, *(tenure.deadline - now for tenure in current)))
            continue
        due = [tenure for tenure in current if tenure.renew_at <= now + TOGETHER_SECONDS][:MOST_TOGETHER]
        # While we wait for this answer nobody watches the deadlines of the others.
        first_end = min(tenure.deadline for tenure in current) - now
        timeout = max(0.05, min(ANSWER_SECONDS, max(1.0, first_end / 4), first_end))
        alone = [tenure for tenure in due if tenure.item is None]
        together = [tenure for tenure in due if tenure.item is not None]
        if len(together) > 1 and book.knows_renew_all:
            yield from _renew_together(book, together, timeout=timeout)
        else:
            alone = due
        for tenure in alone:
            yield from renew_once(tenure, timeout=timeout)
            if any(other.deadline <= clock.now() for other in current):
                break


def renew_once(tenure: Tenure, *, timeout: float) -> Call[None]:
    """One attempt; the tenure is told how it went."""
    try:
        response: Response = yield tenure.renewal(timeout=timeout)
    except errors.Unreachable as problem:
        tenure.missed(str(problem))
        return
    refusal = refused(response)
    if refusal is None:
        tenure.renewed(response.json(), sent_at=response.sent_at)
    elif _is_final(refusal):
        tenure.refused(refusal.details)
    else:
        tenure.missed(refusal.details)


def _is_final(refusal: errors.ApiError) -> bool:
    return isinstance(refusal, errors.LeaseNotCurrent | errors.SessionExpired | errors.NotFound)


def _renew_together(book: Book, leases: list[Tenure], *, timeout: float) -> Call[None]:
    asked = [lease.item or {} for lease in leases]
    try:
        response: Response = yield Request("POST", "/locks/renew-all", {"leases": asked}, timeout=timeout)
    except errors.Unreachable as problem:
        for lease in leases:
            lease.missed(str(problem))
        return
    refusal = refused(response)
    if refusal is not None:
        if refusal.status in (404, 405):
            book.knows_renew_all = False
        for lease in leases:
            lease.missed(refusal.details)
        return
    told: dict[str, Any] = {result["lease_id"]: result for result in response.json()["results"]}
    for lease, item in zip(leases, asked, strict=True):
        result = told.get(item["lease_id"], {})
        if result.get("ok"):
            lease.renewed(result, sent_at=response.sent_at)
        elif result.get("code") == errors.Code.LEASE_NOT_CURRENT.value:
            lease.refused(result.get("details", ""))
        else:
            lease.missed(result.get("details", "The server did not say."))
