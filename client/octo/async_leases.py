"""Leases, locks, semaphores and sessions of the asynchronous client."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from octo import errors, operations
from octo.connection import AsyncCallbacks, AsyncTruthyEvent
from octo.interrupts import AsyncInterrupter
from octo.lease import LeaseBase, LeaseEvent, SessionBase, Status, TermBase
from octo.models import AcquireOptions, LeaseOptions, Metadata, metadata_text
from octo.protocol import ANSWER_SECONDS, Request

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from octo.async_client import AsyncClient

log = logging.getLogger("octo")
# A release is tried for at least this long, so that one lost packet does not decide.
MIN_RELEASE_SECONDS = 2.0


class AsyncLockOptions(AcquireOptions, total=False):
    """`interrupt`: interrupt the block if the lease is over. `on_lost(lease)` and `on_event(event, lease, detail)` are
    called off the renewing path."""

    interrupt: bool
    on_lost: Callable[[AsyncLease], object] | None
    on_event: Callable[[LeaseEvent, AsyncLease, str], object] | None


class AsyncLease(LeaseBase):
    """A lock that is ours for a while. As a context it is renewed in the background and released at the end."""

    def __init__(
        self,
        body: dict[str, Any],
        *,
        options: LeaseOptions,
        sent_at: float,
        client: AsyncClient,
        interrupt: bool = False,
    ) -> None:
        self._client = client
        self._interrupt = interrupt
        self._interrupter: AsyncInterrupter | None = None
        self._callbacks = AsyncCallbacks()
        self.lost = AsyncTruthyEvent()
        super().__init__(body, options=options, sent_at=sent_at)

    def start_renewing(self) -> None:
        """Renews it in the background from now on."""
        self._client.connection.start_renewing(self)

    def when_lost(self, callback: Callable[[AsyncLease], object]) -> None:
        """Called once if the lease ends before it was released."""
        self.on_event(lambda event, lease, _detail: callback(lease) if event in _ENDED else None)

    def on_event(self, callback: Callable[[LeaseEvent, AsyncLease, str], object]) -> None:
        self.observe(lambda event, detail: self._callbacks.submit(lambda: callback(event, self, detail)))

    async def renew(self, ttl: int | None = None) -> None:
        """Renews it now, for `ttl` seconds from now on. Raises LeaseLost if it is over."""
        self.check()
        if ttl is not None:
            self.ttl = ttl
        request, retry_for = self.renewal(timeout=ANSWER_SECONDS), min(self._client.retry_for, self.remaining)
        try:
            reply = await self._client.send(request, operations.checked(self), "renew", retry_for=retry_for)
        except errors.LeaseNotCurrent as problem:
            self.end(Status.LOST, problem.details)
        else:
            self.renewed(reply.value, sent_at=reply.sent_at)
        self.check()

    async def release(self, *, retry_for: float | None = None) -> None:
        """Releases the lock. Raises LeaseLost if it was not ours any more."""
        if not self.is_ours or self._status is Status.RELEASED:
            return
        if self._status is Status.LOST:
            self.check()
        self.begin_release()
        self._client.connection.stop_renewing(self)
        if retry_for is None:
            # Beyond its end there is nothing to release.
            retry_for = min(self._client.retry_for, max(MIN_RELEASE_SECONDS, self.remaining))
        operation = operations.end(self.ending(), retry_for=retry_for, parse=self.parse_ending)
        try:
            await self._client.execute(operation, "release")
        except errors.LeaseNotCurrent as problem:
            self.end(Status.LOST, problem.details)
            raise self.error() or problem from problem
        self.end(Status.RELEASED)

    def on_end(self, status: Status) -> None:
        if status is not Status.RELEASED:
            self.lost.set()
            if self._interrupter is not None:
                self._interrupter.trigger()

    async def __aenter__(self) -> Self:
        self.check()
        if self._interrupt:
            self._interrupter = AsyncInterrupter()
        self.start_renewing()
        return self

    async def __aexit__(self, kind: object, raised: BaseException | None, trace: object) -> None:
        interrupter, self._interrupter = self._interrupter, None
        interrupted = interrupter.leave(raised) if interrupter is not None else False
        if not self.is_ours or self._status is Status.RELEASED:
            return
        with AsyncInterrupter.deferred():
            ended = self.error()
            try:
                await self.release()
            except errors.LeaseEnded as problem:
                ended = ended or problem
            except errors.OctoError as problem:
                log.warning("%s could not be released and will expire: %s", self.label, problem)
        if ended is not None and (raised is None or interrupted or isinstance(raised, errors.LeaseEnded)):
            raise ended from None


_ENDED = (LeaseEvent.LOST, LeaseEvent.UNCERTAIN)


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
        held = [lease for lease in self if lease.owned()]
        if len(held) > 1:
            try:
                await held[0]._client.release_all(held)
            except errors.OctoError as problem:
                log.warning("%d leases could not be released together: %s", len(held), problem)
        return await self._stack.__aexit__(kind, raised, trace)


class AsyncLock:
    """A named lock, as a context or by `acquire` and `release`. Entered as a context it gives the lease."""

    def __init__(
        self, name: str, *, client: AsyncClient, options: AsyncLockOptions, session: AsyncSession | None = None
    ) -> None:
        self.name = name
        self.lease: AsyncLease | None = None
        self._client = client
        self._options = options
        self._session = session

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {'owned' if self.owned() else 'not owned'}>"

    async def _acquire(self, options: AsyncLockOptions) -> AsyncLease:
        return await self._client.acquire(self.name, **options)

    async def _take(self, options: AsyncLockOptions) -> AsyncLease:
        if self.owned():
            raise RuntimeError(f"{self.name} is held by this lock already")
        if self._session is not None:
            if not self._session.session_id:
                raise RuntimeError("the session is not open: enter it as a context, or call open()")
            options = {**options, "session_id": self._session.session_id}
        lease = await self._acquire(options)
        if self._session is not None:
            self._session.attach(lease)
        self.lease = lease
        return lease

    async def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Waits `timeout` seconds; without it as long as `wait` says, or for ever. True if the lock is ours: then it is
        renewed in the background until it is released."""
        wait = (timeout if timeout is not None else self._options.get("wait") or math.inf) if blocking else None
        options = self._options.copy()
        options["wait"] = wait
        try:
            lease = await self._take(options)
        except errors.LockHeld:
            return False
        lease.start_renewing()
        return True

    def _held(self) -> AsyncLease:
        if self.lease is None:
            raise errors.LeaseLost(f"{self.name} is not held by this lock.", name=self.name)
        return self.lease

    async def release(self) -> None:
        lease, self.lease = self._held(), None
        await lease.release()

    async def extend(self, ttl: int | None = None) -> None:
        """The lease lasts `ttl` seconds from now on."""
        await self._held().renew(ttl)

    async def locked(self) -> bool:
        """Whether anyone holds it, as the server sees it."""
        return (await self._client.inspect(self.name)).status == "held"

    def owned(self) -> bool:
        """Whether this lock certainly holds it."""
        return self.lease is not None and self.lease.owned()

    @property
    def fencing_token(self) -> int | None:
        return self.lease.fencing_token if self.lease is not None else None

    async def __aenter__(self) -> AsyncLease:
        return await (await self._take(self._options)).__aenter__()

    async def __aexit__(self, kind: object, raised: BaseException | None, trace: object) -> None:
        lease, self.lease = self.lease, None
        if lease is not None:
            await lease.__aexit__(kind, raised, trace)


class AsyncSemaphore(AsyncLock):
    """Up to `slots` holders at once: a free one of the locks `name/slot-1`, `name/slot-2`, …"""

    def __init__(self, name: str, *, slots: int, client: AsyncClient, options: AsyncLockOptions) -> None:
        self.slots: Sequence[str] = [f"{name}/slot-{number}" for number in range(1, slots + 1)]
        super().__init__(name, client=client, options=options)

    async def _acquire(self, options: AsyncLockOptions) -> AsyncLease:
        return await self._client.claim_next(self.slots, **options)

    async def locked(self) -> bool:
        """Whether every slot is held."""
        locks = {lock.name async for lock in self._client.locks(prefix=f"{self.name}/slot-")}
        return locks >= set(self.slots)


class AsyncTerm(TermBase, AsyncLease):
    """The leadership of a room, renewed and ended as a lease is; `fencing_token` is the term."""


class AsyncElection(AsyncLock):
    """A candidate in a room. As a context it waits until the candidate leads, and gives the term."""

    def __init__(self, room: str, *, candidate: str, client: AsyncClient, options: AsyncLockOptions) -> None:
        self.candidate = candidate
        super().__init__(room, client=client, options={"wait": math.inf, **options})

    async def _acquire(self, options: AsyncLockOptions) -> AsyncLease:
        return await self._client.campaign(self.name, self.candidate, **options)

    async def locked(self) -> bool:
        """Whether the room has a leader."""
        return (await self._client.inspect_election(self.name)).status == "leader"


class AsyncSession(SessionBase):
    """One running process. As a context it is kept alive in the background; its end frees everything that was acquired
    with it."""

    def __init__(self, *, client: AsyncClient, ttl: int, owner: str | None, metadata: Metadata) -> None:
        self._client = client
        self._body = {"owner": owner, "metadata": metadata_text(metadata)}
        super().__init__(ttl=ttl)

    async def open(self) -> Self:
        """Without a context: it is not kept alive until `start_renewing`."""
        fields = {"ttl_seconds": self.ttl, **self._body}
        # A session whose answer was lost ends by itself, so opening another does no harm.
        request = Request("POST", "/sessions", {field: value for field, value in fields.items() if value is not None})
        reply = await self._client.send(request, operations.parse_session, "open session")
        self.opened(reply.value, sent_at=reply.sent_at)
        return self

    def start_renewing(self) -> None:
        self._client.connection.start_renewing(self)

    async def acquire(self, name: str, **options: Unpack[AsyncLockOptions]) -> AsyncLease:
        """As `AsyncClient.acquire`; the lease ends with the session, or with its own TTL if it is not renewed."""
        return await self.lock(name, **options)._take(options)

    def lock(self, name: str, **options: Unpack[AsyncLockOptions]) -> AsyncLock:
        return AsyncLock(name, client=self._client, options=options, session=self)

    async def close(self) -> None:
        """Frees its locks at once."""
        self._client.connection.stop_renewing(self)
        if self.status is Status.HELD:
            self.begin_release()
            for lease in self._leases:
                lease.begin_release()
                self._client.connection.stop_renewing(lease)
            try:
                await self._end_session()
            except (errors.NotFound, errors.SessionExpired, errors.AuthenticationFailed) as problem:
                log.warning("%s had ended already: %s", self.label, problem)
        self.end(Status.RELEASED)

    async def _end_session(self) -> None:
        await self._client.end_session(self.session_id)

    async def __aenter__(self) -> Self:
        await self.open()
        self.start_renewing()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        with AsyncInterrupter.deferred():
            try:
                await self.close()
            except errors.OctoError as problem:
                log.warning("%s could not be ended and will expire: %s", self.label, problem)
