"""Leases and sessions of the asynchronous client: the same names, to be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from octo import errors, tied, verbs
from octo.grants import Grant
from octo.leases import SHORTEST_EFFORT
from octo.tenure import Happening, Status, Tenure
from octo.terms import Terms

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from typing_extensions import Self

    from octo.async_client import AsyncClient


class AsyncFlag(asyncio.Event):
    """An event that is true when it is set."""

    def __bool__(self) -> bool:
        return self.is_set()


class AsyncLease(Grant):
    """A lock that is ours for a while. As a context it is renewed in the background and released at the end."""

    def __init__(
        self,
        told: dict[str, Any],
        *,
        client: AsyncClient,
        terms: Terms,
        sent_at: float,
        name: str | None = None,
        interrupt: bool = False,
    ) -> None:
        self._client = client
        self._interrupt = interrupt
        self._task: asyncio.Task[Any] | None = None
        self._was_cut = False
        self.lost = AsyncFlag()
        super().__init__(told, terms=terms, sent_at=sent_at, name=name)

    def keep(self) -> None:
        """Renews it in the background from now on."""
        self._client.keep(self)

    def when_lost(self, callback: Callable[[AsyncLease], object]) -> None:
        """Called once, on the event loop, if the lease ends before it was released."""

        def observer(happening: Happening, _tenure: Tenure, _detail: str) -> None:
            if happening in (Happening.LOST, Happening.UNCERTAIN):
                callback(self)

        self.observe(observer)

    async def renew(self, ttl: int | None = None) -> None:
        """Renews it now. Raises LeaseLost if it is over."""
        self.check()
        if ttl is not None:
            self.ttl = ttl
        retry_for = min(self._client.retry_for, self.remaining)
        try:
            told = await self._client.perform(verbs.renew(self.name, self.lease_id, ttl=self.ttl, retry_for=retry_for))
        except errors.LeaseNotCurrent as problem:
            self.end(Status.LOST, problem.details)
        else:
            self.renewed(told, sent_at=told["sent_at"])
        self.check()

    async def release(self, *, retry_for: float | None = None) -> None:
        """Gives the lock back. Raises LeaseLost if it was not ours any more."""
        if not self.is_ours or self._status is Status.RELEASED:
            return
        self.closing()
        self._client.stop_keeping(self)
        if retry_for is None:
            # Beyond its end there is nothing to give back.
            retry_for = min(self._client.retry_for, max(SHORTEST_EFFORT, self.remaining))
        try:
            await self._client.perform(verbs.release(self.name, self.lease_id, retry_for=retry_for))
        except errors.LeaseNotCurrent as problem:
            self.end(Status.LOST, problem.details)
            raise self.problem() or problem from problem
        self.end(Status.RELEASED)

    def over(self, status: Status) -> None:
        if status is not Status.RELEASED:
            self.lost.set()
            if self._interrupt and self._task is not None:
                self._was_cut = True
                self._task.cancel()

    async def __aenter__(self) -> Self:
        self.check()
        self._task = asyncio.current_task()
        self.keep()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        ours = self._was_cut and isinstance(raised, asyncio.CancelledError)
        if ours and task is not None and hasattr(task, "uncancel"):
            # Since Python 3.11 a task counts who has asked it to end.
            ours = task.uncancel() == 0
        if not self.is_ours or self._status is Status.RELEASED:
            return
        over = self.problem()
        try:
            await self.release()
        except errors.OctoError as problem:
            over = over or (problem if isinstance(problem, errors.LeaseOver) else None)
        if over is not None and (raised is None or ours or isinstance(raised, errors.LeaseOver)):
            raise over from None


class AsyncLeases(list[AsyncLease]):
    """Several leases as one context."""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for lease in self:
                await stack.enter_async_context(lease)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, raised, trace)


class AsyncSession(tied.SessionTenure):
    """As a context it is kept alive in the background; its end frees everything that was taken with it."""

    def __init__(self, told: dict[str, Any], *, client: AsyncClient, ttl: int, sent_at: float) -> None:
        self._client = client
        super().__init__(told, ttl=ttl, sent_at=sent_at)

    async def acquire(self, name: str, **terms: Any) -> AsyncLease:
        lease = await self._client.acquire(name, session_id=self.session_id, **terms)
        self.tie(lease)
        return lease

    def lock(self, name: str, **terms: Any) -> AbstractAsyncContextManager[AsyncLease]:
        return held(lambda: self.acquire(name, **terms))

    async def close(self) -> None:
        """Frees its locks at once."""
        self._client.stop_keeping(self)
        if self.status is Status.HELD:
            self.closing()
            with suppress(errors.NotFound, errors.SessionExpired):
                await self._client.perform(tied.end_session(self.session_id, retry_for=self._client.retry_for))
        self.end(Status.RELEASED)

    async def __aenter__(self) -> Self:
        self._client.keep(self)
        return self

    async def __aexit__(self, *_raised: object) -> None:
        with suppress(errors.Unreachable):
            await self.close()


@asynccontextmanager
async def held(acquire: Callable[[], Awaitable[AsyncLease]]) -> AsyncIterator[AsyncLease]:
    """Acquires when the block is entered, not before."""
    async with await acquire() as lease:
        yield lease
