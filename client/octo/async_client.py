"""The asynchronous client: the same names and the same answers as `octo.client`, to be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial, wraps
from typing import Any, Literal, ParamSpec, TypeVar

from octo import answers, errors, taking, tied, verbs
from octo.async_connection import AsyncConnection
from octo.async_leases import AsyncLease, AsyncLeases, AsyncSession, held
from octo.tenure import Observer
from octo.terms import JOB_TTL, Metadata, Terms, metadata_text
from octo.tied import DEFAULT_SESSION_TTL
from octo.watching import Watching

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


class AsyncClient(AsyncConnection):
    """Every verb of the API, for programs on an event loop. Belongs to the loop that uses it."""

    def lock(
        self,
        name: str,
        *,
        ttl: int | None = None,
        wait: float | None = None,
        owner: str | None = None,
        metadata: Metadata = None,
        lock_delay: int | None = None,
        interrupt: bool = False,
        on_lost: Callable[[AsyncLease], object] | None = None,
        on_event: Observer | None = None,
        on_wait: taking.Waiting | None = None,
    ) -> AbstractAsyncContextManager[AsyncLease]:
        """For `async with`: acquires, renews in the background, releases at the end.

        `wait` is for how many seconds to wait if somebody else has it; by default LockHeld is raised at once.
        If the lease is over before the block is, `lease.lost` is set and `on_lost` called;
        with `interrupt` the block is cut short. At its end LeaseLost or LeaseUncertain is raised.
        """

        async def acquire() -> AsyncLease:
            lease = await self.acquire(
                name, ttl=ttl, wait=wait, owner=owner, metadata=metadata, lock_delay=lock_delay, interrupt=interrupt,
                on_wait=on_wait,
            )  # fmt: skip
            if on_event is not None:
                lease.observe(on_event)
            if on_lost is not None:
                lease.when_lost(on_lost)
            return lease

        return held(acquire)

    async def acquire(
        self,
        name: str,
        *,
        ttl: int | None = None,
        wait: float | None = None,
        owner: str | None = None,
        metadata: Metadata = None,
        lock_delay: int | None = None,
        session_id: str | None = None,
        idempotency_key: str | None = None,
        interrupt: bool = False,
        on_wait: taking.Waiting | None = None,
    ) -> AsyncLease:
        """A lease that is not renewed by itself until it is entered as a context or `keep()` is called."""
        terms = Terms(ttl, owner, metadata_text(metadata), lock_delay, session_id)
        make = partial(AsyncLease, client=self, interrupt=interrupt)
        return await self.perform(
            taking.acquire(
                name, terms, make=make, wait=wait, key=idempotency_key, on_wait=on_wait, retry_for=self.retry_for
            )
        )

    async def claim_next(
        self,
        names: Sequence[str],
        *,
        ttl: int | None = None,
        wait: float | None = None,
        owner: str | None = None,
        metadata: Metadata = None,
        interrupt: bool = False,
        on_wait: taking.Waiting | None = None,
    ) -> AsyncLease:
        """The first of the names that is free."""
        terms = Terms(ttl, owner, metadata_text(metadata))
        make = partial(AsyncLease, client=self, interrupt=interrupt)
        return await self.perform(
            taking.claim_next(names, terms, make=make, wait=wait, on_wait=on_wait, retry_for=self.retry_for)
        )

    async def acquire_all(
        self,
        names: Sequence[str],
        *,
        ttl: int | None = None,
        wait: float | None = None,
        owner: str | None = None,
        metadata: Metadata = None,
    ) -> AsyncLeases:
        """All of them or none; two who ask for the same in another order cannot block each other."""
        terms = Terms(ttl, owner, metadata_text(metadata))
        make = partial(AsyncLease, client=self)
        return AsyncLeases(
            await self.perform(taking.acquire_all(names, terms, make=make, wait=wait, retry_for=self.retry_for))
        )

    async def renew(self, name: str, lease_id: str, *, ttl: int | None = None) -> dict[str, Any]:
        """For a lease that another process has taken."""
        return await self.perform(verbs.renew(name, lease_id, ttl=ttl, retry_for=self.retry_for))

    async def release(self, name: str, lease_id: str) -> None:
        await self.perform(verbs.release(name, lease_id, retry_for=self.retry_for))

    async def inspect(self, name: str) -> answers.Lock:
        return await self.perform(verbs.inspect(name, retry_for=self.retry_for))

    async def locks(
        self,
        *,
        prefix: str | None = None,
        owner: str | None = None,
        status: Literal["held", "delayed", "all"] | None = None,
        sort: Literal["name", "expires_at", "acquired_at"] | None = None,
    ) -> AsyncIterator[answers.Lock]:
        """All of them, page by page."""
        asked: dict[str, Any] = {"prefix": prefix, "owner": owner, "status": status, "sort": sort, "limit": 1000}
        while True:
            page, asked["cursor"] = await self.perform(verbs.page_of_locks(asked, retry_for=self.retry_for))
            for lock in page:
                yield lock
            if asked["cursor"] is None:
                return

    async def force_release(
        self, name: str, *, reason: str, fencing_token: int | None = None, lock_delay: int | None = None
    ) -> answers.Released:
        """With `fencing_token`, only if the lock is still held under it."""
        return await self.perform(
            verbs.force_release(
                name, reason=reason, fencing_token=fencing_token, lock_delay=lock_delay, retry_for=self.retry_for
            )
        )

    async def history(self, name: str | None = None, *, limit: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """What happened to a lock, or in the whole space; newest first."""
        asked: dict[str, Any] = {"limit": min(limit or 100, 1000)}
        seen = 0
        while True:
            page, asked["cursor"] = await self.perform(verbs.page_of_events(name, asked, retry_for=self.retry_for))
            for event in page:
                if limit is not None and seen >= limit:
                    return
                seen += 1
                yield event
            if asked["cursor"] is None:
                return

    async def session(
        self, *, ttl: int = DEFAULT_SESSION_TTL, owner: str | None = None, metadata: Metadata = None
    ) -> AsyncSession:
        """For `async with`: many locks under one keepalive, all of them free at the end."""
        told, sent_at = await self.perform(
            tied.open_session(ttl=ttl, owner=owner, metadata=metadata_text(metadata), retry_for=self.retry_for)
        )
        return AsyncSession(told, client=self, ttl=ttl, sent_at=sent_at)

    async def watch(
        self, name: str | None = None, *, prefix: str | None = None, after: str | None = None
    ) -> AsyncGenerator[answers.WatchEvent, None]:
        """What becomes of a lock, or of all with a prefix: first how they are, then every change, without end.

        A broken connection is taken up again where it broke. `after` is the `id` of an event seen earlier.
        """
        watching = Watching(name=name, prefix=prefix, after=after, retry_for=self.retry_for)
        while True:
            problem: errors.Unreachable | None = None
            try:
                async with self.transport.stream(watching.request()) as (response, lines):
                    watching.connected(response)
                    async for line in lines:
                        for event in watching.feed(line):
                            yield event
            except errors.Unreachable as broken:
                problem = broken
            await asyncio.sleep(watching.broken(problem))

    async def whoami(self) -> answers.Identity:
        return await self.perform(verbs.whoami(retry_for=self.retry_for))

    async def rotate_token(self, *, overlap: int = 0) -> answers.NewToken:
        """The successor of this client's token, which works on for `overlap` seconds."""
        return await self.perform(verbs.rotate_token(overlap=overlap, retry_for=self.retry_for))

    def singleton(
        self, name: str, *, on_held: Literal["skip", "raise"] = "skip", **terms: Any
    ) -> Callable[[Callable[Arguments, Awaitable[Result]]], Callable[Arguments, Awaitable[Result | None]]]:
        """Of all who call the function at the same time, anywhere, one runs it. The others return None, or raise."""

        def decorate(function: Callable[Arguments, Awaitable[Result]]) -> Callable[Arguments, Awaitable[Result | None]]:
            @wraps(function)
            async def alone(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result | None:
                try:
                    lease = await self.acquire(name, **terms)
                except errors.LockHeld:
                    if on_held == "raise":
                        raise
                    return None
                async with lease:
                    return await function(*args, **kwargs)

            return alone

        return decorate

    async def claim_job(self, job_id: str, owner: str, metadata: Metadata, ttl: int = JOB_TTL) -> AsyncLease:
        """Raises LockHeld, which knows the owner, if somebody else has it. Send heartbeats with the lease's id."""
        return await self.acquire(job_id, owner=owner, metadata=metadata, ttl=ttl)

    async def heartbeat_job(self, job_id: str, lease_id: str) -> datetime | None:
        """Until when the claim now lasts. Raises LeaseNotCurrent if it is over: stop the work."""
        return answers.time((await self.renew(job_id, lease_id)).get("expires_at"))

    async def release_job(self, job_id: str, lease_id: str) -> None:
        await self.release(job_id, lease_id)

    async def get_job_owner(self, job_id: str) -> answers.Lock | None:
        """Who has it, with metadata and expiry; None if nobody has."""
        lock = await self.inspect(job_id)
        return lock if lock.status == "held" else None

    async def list_claimed_jobs(self, prefix: str | None = None) -> list[answers.Lock]:
        return [lock async for lock in self.locks(prefix=prefix)]
