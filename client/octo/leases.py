"""Leases of the blocking client: renewed by its thread, given back at the end of a block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from octo import errors, verbs
from octo.blocks import BlockCut, Interruption
from octo.grants import Grant
from octo.tenure import Happening, Status, Tenure
from octo.terms import Terms

if TYPE_CHECKING:
    from typing_extensions import Self

    from octo.client import Client

# How long to try at least, so that one lost packet does not decide.
SHORTEST_EFFORT = 2.0


class Flag(threading.Event):
    """An event that is true when it is set, so that `if lease.lost:` means what it says."""

    def __bool__(self) -> bool:
        return self.is_set()


class Lease(Grant):
    """A lock that is ours for a while. As a context it is renewed in the background and released at the end."""

    def __init__(
        self,
        told: dict[str, Any],
        *,
        client: Client,
        terms: Terms,
        sent_at: float,
        name: str | None = None,
        interrupt: bool = False,
    ) -> None:
        self._client = client
        self._interrupt = interrupt
        self._interruption: Interruption | None = None
        self.lost = Flag()
        super().__init__(told, terms=terms, sent_at=sent_at, name=name)

    def keep(self) -> None:
        """Renews it in the background from now on."""
        self._client.keep(self)

    def when_lost(self, callback: Callable[[Lease], object]) -> None:
        """Called once, from the thread that finds out, if the lease ends before it was released."""

        def observer(happening: Happening, _tenure: Tenure, _detail: str) -> None:
            if happening in (Happening.LOST, Happening.UNCERTAIN):
                callback(self)

        self.observe(observer)

    def renew(self, ttl: int | None = None) -> None:
        """Renews it now. Raises LeaseLost if it is over."""
        self.check()
        if ttl is not None:
            self.ttl = ttl
        try:
            told = self._client.perform(
                verbs.renew(
                    self.name, self.lease_id, ttl=self.ttl, retry_for=min(self._client.retry_for, self.remaining)
                )
            )
        except errors.LeaseNotCurrent as problem:
            self.end(Status.LOST, problem.details)
        else:
            self.renewed(told, sent_at=told["sent_at"])
        self.check()

    def release(self, *, retry_for: float | None = None) -> None:
        """Gives the lock back. Raises LeaseLost if it was not ours any more."""
        if not self.is_ours or self._status is Status.RELEASED:
            return
        self.closing()
        self._client.stop_keeping(self)
        try:
            if retry_for is None:
                # Beyond its end there is nothing to give back.
                retry_for = min(self._client.retry_for, max(SHORTEST_EFFORT, self.remaining))
            self._client.perform(verbs.release(self.name, self.lease_id, retry_for=retry_for))
        except errors.LeaseNotCurrent as problem:
            self.end(Status.LOST, problem.details)
            raise self.problem() or problem from problem
        self.end(Status.RELEASED)

    def over(self, status: Status) -> None:
        if status is not Status.RELEASED:
            self.lost.set()

    def __enter__(self) -> Self:
        self.check()
        if self._interrupt:
            self._interruption = Interruption()
            self.observe(self._strike)
        self.keep()
        return self

    def _strike(self, happening: Happening, _tenure: Tenure, _detail: str) -> None:
        if happening in (Happening.LOST, Happening.UNCERTAIN) and self._interruption is not None:
            self._interruption.strike()

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._interruption is not None:
            self._interruption.leave()
        if not self.is_ours or self._status is Status.RELEASED:
            return
        over = self.problem()
        try:
            self.release()
        except errors.OctoError as problem:
            # Not given back: it runs out by itself. Whether the block had it all the time is what matters.
            over = over or (problem if isinstance(problem, errors.LeaseOver) else None)
        if over is not None and (raised is None or isinstance(raised, errors.LeaseOver | BlockCut)):
            raise over from None


class Leases(list[Lease]):
    """Several leases as one context."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for lease in self:
                stack.enter_context(lease)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._stack.__exit__(kind, raised, trace)


@contextmanager
def held(acquire: Callable[[], Lease]) -> Iterator[Lease]:
    """Acquires when the block is entered, not before."""
    with acquire() as lease:
        yield lease
