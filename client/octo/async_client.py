"""The asynchronous client."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from copy import copy
from datetime import datetime
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from octo import config, errors, models, operations, watch
from octo.async_leases import (
    AsyncElection,
    AsyncLease,
    AsyncLeases,
    AsyncLock,
    AsyncLockOptions,
    AsyncSemaphore,
    AsyncSession,
    AsyncTerm,
)
from octo.connection import AsyncConnection
from octo.lease import Status
from octo.models import DEFAULT_SESSION_TTL, JOB_TTL, Metadata
from octo.protocol import Operation, Reply, Request, election_path, lock_path, send_with_retry, with_query
from octo.renewer import apply_renewal
from octo.transport import Transport

if TYPE_CHECKING:
    import httpx
    from typing_extensions import Self, Unpack

    from octo.async_runs import AsyncActor, AsyncRun, AsyncStore

RETRY_SECONDS = 30.0
MAX_PAGE = 1000
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
LeaseKind = TypeVar("LeaseKind", bound=AsyncLease)


class AsyncClient:
    """All of the API. Belongs to the event loop that uses it."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        token_file: str | os.PathLike[str] | None = None,
        profile: str | None = None,
        allow_http: bool | None = None,
        retry_for: float = RETRY_SECONDS,
        ca_file: str | None = None,
        client_cert: str | None = None,
        client_key: str | None = None,
        http2: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
        program: str | None = None,
    ) -> None:
        """What is not given comes from the environment, or from a profile that `octo login` saved."""
        self.settings = config.resolve(
            url=url, token=token, token_file=token_file, profile=profile, allow_http=allow_http, ca_file=ca_file,
            client_cert=client_cert, client_key=client_key, http2=http2,
        )  # fmt: skip
        self.retry_for = retry_for
        self.connection = AsyncConnection(Transport(self.settings, program=program, transport=transport))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """What is still held is not renewed any more, and expires."""
        await self.connection.close()

    def with_token(self, token: str) -> AsyncClient:
        """Another client of the same server."""
        other = copy(self)
        other.settings = self.settings._replace(token=token, token_file=None)
        other.connection = AsyncConnection(self.connection.transport.reopened(other.settings))
        return other

    async def execute(self, operation: Operation[Result], name: str = "request") -> Result:
        return await self.connection.execute(operation, name)

    async def send(
        self, request: Request, parse: Callable[[Any], Result], name: str = "", *, retry_for: float | None = None
    ) -> Reply[Result]:
        operation = send_with_retry(request, parse, retry_for=self.retry_for if retry_for is None else retry_for)
        return await self.execute(operation, name or f"{request.method} {request.path.partition('?')[0]}")

    async def call(self, request: Request, parse: Callable[[Any], Result]) -> Result:
        return (await self.send(request, parse)).value

    async def request(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, idempotent: bool | None = None
    ) -> Any:
        """Any other endpoint: the JSON of its answer. Only what is idempotent is repeated after a lost answer."""
        repeatable = method != "POST" if idempotent is None else idempotent
        return await self.call(Request(method, path, body, idempotent=repeatable), lambda answer: answer)

    def lock(self, name: str, **options: Unpack[AsyncLockOptions]) -> AsyncLock:
        """For `with`: acquires, renews in the background, releases at the end.

        Without `wait`, LockHeld is raised at once if the lock is held. If the lease is over before the block is,
        `lease.lost` is set, `on_lost` called, and with `interrupt` the block interrupted; it ends with LeaseLost or
        LeaseUncertain.
        """
        return AsyncLock(name, client=self, options=options)

    def semaphore(self, name: str, *, slots: int, **options: Unpack[AsyncLockOptions]) -> AsyncSemaphore:
        """As `lock`, for up to `slots` holders at once."""
        return AsyncSemaphore(name, slots=slots, client=self, options=options)

    async def acquire(self, name: str, **options: Unpack[AsyncLockOptions]) -> AsyncLease:
        """A lease that is not renewed until it is entered as a context or `start_renewing()` is called."""
        make = partial(self._make, AsyncLease, lock_options=options)
        operation = operations.acquire(name, options, make=make, retry_for=self.retry_for)
        return (await self.execute(operation, "acquire"))[0]

    async def try_acquire(self, name: str, **options: Unpack[AsyncLockOptions]) -> AsyncLease | None:
        """As `acquire`; None if the lock is held."""
        try:
            return await self.acquire(name, **options)
        except errors.LockHeld:
            return None

    async def claim_next(self, names: Sequence[str], **options: Unpack[AsyncLockOptions]) -> AsyncLease:
        """The first of the names that is free and that no other request is changing."""
        make = partial(self._make, AsyncLease, lock_options=options)
        operation = operations.claim_next(names, options, make=make, retry_for=self.retry_for)
        return (await self.execute(operation, "claim-next"))[0]

    async def acquire_all(self, names: Sequence[str], **options: Unpack[AsyncLockOptions]) -> AsyncLeases:
        """All of them or none; requests for the same names in another order do not deadlock."""
        make = partial(self._make, AsyncLease, lock_options=options)
        operation = operations.acquire_all(names, options, make=make, retry_for=self.retry_for)
        return AsyncLeases(await self.execute(operation, "acquire-all"))

    def _make(
        self,
        kind: type[LeaseKind],
        body: dict[str, Any],
        *,
        options: models.LeaseOptions,
        sent_at: float,
        lock_options: AsyncLockOptions,
    ) -> LeaseKind:
        interrupt = lock_options.get("interrupt", False)
        lease = kind(body, options=options, sent_at=sent_at, client=self, interrupt=interrupt)
        if (on_event := lock_options.get("on_event")) is not None:
            lease.on_event(on_event)
        if (on_lost := lock_options.get("on_lost")) is not None:
            lease.when_lost(on_lost)
        return lease

    async def renew(self, name: str, lease_id: str, *, ttl: int | None = None) -> dict[str, Any]:
        """For a lease that another process acquired."""
        return await self.execute(operations.renew(name, lease_id, ttl=ttl, retry_for=self.retry_for), "renew")

    async def release(self, name: str, lease_id: str) -> None:
        await self.execute(operations.release(name, lease_id, retry_for=self.retry_for), "release")

    async def renew_all(self, leases: Iterable[AsyncLease]) -> list[AsyncLease]:
        """Renews them now, in one request. Returns those that are lost."""
        held = list(leases)
        async for lease, result, reply in self._for_all("renew-all", held):
            apply_renewal(lease, result, sent_at=reply.sent_at)
        return [lease for lease in held if lease.status is Status.LOST]

    async def release_all(self, leases: Iterable[AsyncLease]) -> list[AsyncLease]:
        """Releases them in one request. Returns those that were lost before."""
        held = list(leases)
        for lease in held:
            lease.begin_release()
            self.connection.stop_renewing(lease)
        async for lease, result, reply in self._for_all("release-all", held):
            if result["ok"] or reply.repeated:
                lease.end(Status.RELEASED)
            elif result.get("code") == errors.Code.LEASE_NOT_CURRENT.value:
                lease.end(Status.LOST, str(result.get("details")))
        return [lease for lease in held if lease.status is Status.LOST]

    async def _for_all(
        self, verb: str, leases: Sequence[AsyncLease]
    ) -> AsyncIterator[tuple[AsyncLease, dict[str, Any], Reply[Any]]]:
        for first in range(0, len(leases), MAX_PAGE):
            chunk = {lease.lease_id: lease for lease in leases[first : first + MAX_PAGE]}
            request = Request("POST", f"/locks/{verb}", {"leases": [lease.batch_entry for lease in chunk.values()]})
            reply = await self.send(request, operations.parse_results, verb)
            for result in reply.value:
                if (lease := chunk.get(result["lease_id"])) is not None:
                    yield lease, result, reply

    async def inspect(self, name: str) -> models.LockInfo:
        return await self.call(Request("GET", lock_path(name)), partial(models.parse, models.LockInfo))

    async def check(
        self, names: Sequence[str], *, lease_ids: Sequence[str] = (), session_id: str | None = None
    ) -> models.LockCheck:
        """Whether the space's policy lets you change what these names stand for. Yours are the leases with these ids,
        and those of the session. Changes nothing."""
        body = {"names": list(names), "lease_ids": list(lease_ids), "session_id": session_id}
        given = {field: value for field, value in body.items() if value is not None}
        return await self.call(Request("POST", "/locks/check", given), operations.parse_check)

    async def locks(
        self,
        *,
        prefix: str | None = None,
        owner: str | None = None,
        status: Literal["held", "delayed", "all"] | None = None,
        sort: Literal["name", "expires_at", "acquired_at"] | None = None,
    ) -> AsyncIterator[models.LockInfo]:
        """All of them, page by page."""
        filters: dict[str, Any] = {"prefix": prefix, "owner": owner, "status": status, "sort": sort, "limit": MAX_PAGE}
        async for lock in self.pages("/locks", filters, "locks"):
            yield models.parse(models.LockInfo, lock)

    async def pages(self, path: str, filters: dict[str, Any], field: str) -> AsyncIterator[Any]:
        while True:
            request = Request("GET", with_query(path, filters))
            page, filters["cursor"] = await self.call(request, partial(operations.parse_page, field))
            for one in page:
                yield one
            if filters["cursor"] is None:
                return

    async def force_release(
        self, name: str, *, reason: str, fencing_token: int | None = None, lock_delay: int | None = None
    ) -> models.PreviousHolder:
        """With `fencing_token`, only if the lock is still held under it."""
        fields = {"reason": reason, "fencing_token": fencing_token, "lock_delay_seconds": lock_delay}
        body = {field: value for field, value in fields.items() if value is not None}
        # Without the guard a second attempt could end the next holder's lease.
        request = Request("POST", lock_path(name, "force-release"), body, idempotent=fencing_token is not None)
        return await self.call(request, partial(operations.parse_previous, name))

    async def freeze(self, prefix: str = "", *, reason: str, duration: int) -> models.Freeze:
        """Closes the names that start with this, or all, to new claims for so many seconds. Leases that are held can be
        renewed and released."""
        body = {"prefix": prefix, "reason": reason, "duration_seconds": duration}
        request = Request("POST", "/freezes", body, idempotent=False)
        return await self.call(request, partial(models.parse, models.Freeze))

    async def freezes(self) -> list[models.Freeze]:
        found, _ = await self.call(Request("GET", "/freezes"), partial(operations.parse_page, "freezes"))
        return [models.parse(models.Freeze, one) for one in found]

    async def unfreeze(self, freeze_id: int) -> None:
        """Before its end. Requests that wait are served at once."""
        operation = operations.end(Request("DELETE", f"/freezes/{freeze_id}"), retry_for=self.retry_for)
        await self.execute(operation, "unfreeze")

    async def history(self, name: str | None = None, *, limit: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """The audit trail of a lock, or of the whole space; newest first."""
        filters: dict[str, Any] = {"limit": min(limit or 100, MAX_PAGE)}
        count = 0
        async for event in self.pages(lock_path(name, "history") if name else "/events", filters, "events"):
            if limit is not None and count >= limit:
                return
            count += 1
            yield event

    def session(
        self, *, ttl: int = DEFAULT_SESSION_TTL, owner: str | None = None, metadata: Metadata = None
    ) -> AsyncSession:
        """For `with`: many locks under one keepalive, all of them free at the end."""
        return AsyncSession(client=self, ttl=ttl, owner=owner, metadata=metadata)

    async def sessions(self) -> list[models.SessionInfo]:
        found, _ = await self.call(Request("GET", "/sessions"), partial(operations.parse_page, "sessions"))
        return [models.parse(models.SessionInfo, one) for one in found]

    async def inspect_session(self, session_id: str) -> models.SessionInfo:
        return await self.call(Request("GET", f"/sessions/{session_id}"), partial(models.parse, models.SessionInfo))

    async def keepalive_session(self, session_id: str) -> models.SessionInfo:
        request = Request("POST", f"/sessions/{session_id}/keepalive", {})
        return await self.call(request, partial(models.parse, models.SessionInfo))

    async def end_session(self, session_id: str) -> None:
        operation = operations.end(Request("DELETE", f"/sessions/{session_id}"), retry_for=self.retry_for)
        await self.execute(operation, "end session")

    async def watch(
        self, name: str | None = None, *, prefix: str | None = None, after: str | None = None
    ) -> AsyncGenerator[models.WatchEvent, None]:
        """A lock, or all with a prefix: first a snapshot, then every change, without end.

        A broken connection is resumed where it broke. `after` is the `id` of an event seen earlier.
        """
        stream = watch.lock_events(name=name, prefix=prefix, after=after, retry_for=self.retry_for)
        async for event in self.connection.watch(stream):
            yield event

    async def create_election(self) -> str:
        """The random id of a new room, to be shared with all candidates. Elections need no token: `Client(token="")`
        sends none."""
        room = await self.call(Request("POST", "/elections", {}), lambda body: models.expect(body, election_id=str))
        return str(room["election_id"])

    def election(self, room: str, candidate: str, **options: Unpack[AsyncLockOptions]) -> AsyncElection:
        """For `with`: waits until the candidate leads, renews in the background, resigns at the end."""
        return AsyncElection(room, candidate=candidate, client=self, options=options)

    async def campaign(self, room: str, candidate: str, **options: Unpack[AsyncLockOptions]) -> AsyncTerm:
        """As `acquire`: LockHeld if another candidate leads."""
        make = partial(self._make, AsyncTerm, lock_options=options)
        operation = operations.campaign(room, candidate, options, make=make, retry_for=self.retry_for)
        return (await self.execute(operation, "campaign"))[0]

    async def inspect_election(self, room: str) -> models.ElectionInfo:
        return await self.call(Request("GET", election_path(room)), operations.parse_election)

    async def watch_election(self, room: str) -> AsyncGenerator[models.ElectionInfo, None]:
        """The state, and again after each change, without end."""
        async for state in self.connection.watch(watch.election_events(room, retry_for=self.retry_for)):
            yield state

    def run(
        self,
        name: str | None = None,
        *,
        metadata: Metadata = None,
        idle_limit: int | None = None,
        max_depth: int | None = None,
        dump: bool = False,
        ttl: int = DEFAULT_SESSION_TTL,
    ) -> AsyncRun:
        """For `with`: starts a run as its lead, and finishes it at the end, or when the lead is silent for `idle_limit`
        seconds. `ttl` is that of the lead's session. With `dump`, an export is kept at the end."""
        from octo.async_runs import AsyncRun

        body = {
            "name": name, "metadata": models.metadata_text(metadata), "ttl_seconds": idle_limit, "max_depth": max_depth,
            "dump": dump, "session_ttl_seconds": ttl,
        }  # fmt: skip
        return AsyncRun(client=self, path="/runs", body=body, ttl=ttl)

    def join_run(self) -> AsyncActor:
        """For `with`, in a process that was started with the `environment` of an actor: works as that actor."""
        from octo.async_runs import joined_actor

        return joined_actor(self)

    @property
    def kv(self) -> AsyncStore:
        """The entries of the layer that this client's token belongs to."""
        from octo.async_runs import AsyncStore

        return AsyncStore(self)

    async def runs(
        self, *, state: Literal["all", "unfinished", "active", "draining", "finished"] | None = None
    ) -> AsyncIterator[models.RunInfo]:
        """All of them, the latest first."""
        async for run in self.pages("/runs", {"state": state}, "runs"):
            yield models.parse(models.RunInfo, run)

    async def inspect_run(self, run_id: str) -> models.RunInfo:
        return await self.call(Request("GET", f"/runs/{run_id}"), partial(models.parse, models.RunInfo))

    async def drain_run(self, run_id: str) -> models.RunInfo:
        return await self.call(Request("POST", f"/runs/{run_id}/drain", {}), partial(models.parse, models.RunInfo))

    async def finish_run(self, run_id: str, *, reason: str | None = None) -> models.RunInfo:
        """Revokes its tokens and frees its leases. A run that has finished stays as it is."""
        body = {} if reason is None else {"reason": reason}
        return await self.call(Request("POST", f"/runs/{run_id}/finish", body), partial(models.parse, models.RunInfo))

    async def export_run(self, run_id: str) -> dict[str, Any]:
        """One snapshot of all layers, with entries, leases, actors and waiters."""
        return await self.call(Request("GET", f"/runs/{run_id}/export"), models.expect)

    async def whoami(self) -> models.TokenInfo:
        return await self.call(Request("GET", "/whoami"), operations.parse_identity)

    async def rotate_token(self, *, overlap: int = 0) -> models.NewToken:
        """The successor of this client's token, which stays valid for `overlap` seconds."""
        request = Request("POST", "/auth/token/rotate", {"overlap_seconds": overlap}, idempotent=False)
        return await self.call(request, partial(models.parse, models.NewToken))

    def singleton(
        self, name: str, *, on_held: Literal["skip", "raise"] = "skip", **options: Unpack[AsyncLockOptions]
    ) -> Callable[[Callable[Arguments, Awaitable[Result]]], Callable[Arguments, Awaitable[Result | None]]]:
        """Of all calls of the function at the same time, anywhere, one runs it. The others return None, or raise."""

        def decorate(function: Callable[Arguments, Awaitable[Result]]) -> Callable[Arguments, Awaitable[Result | None]]:
            @wraps(function)
            async def run_alone(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result | None:
                try:
                    lease = await self.acquire(name, **options)
                except errors.LockHeld:
                    if on_held == "raise":
                        raise
                    return None
                async with lease:
                    return await function(*args, **kwargs)

            return run_alone

        return decorate

    async def claim_job(self, job_id: str, owner: str, metadata: Metadata = None, ttl: int = JOB_TTL) -> AsyncLease:
        """Raises LockHeld, which knows the owner, if the job is claimed. Send heartbeats with the lease's id."""
        return await self.acquire(job_id, owner=owner, metadata=metadata, ttl=ttl)

    async def heartbeat_job(self, job_id: str, lease_id: str) -> datetime | None:
        """Until when the claim now lasts. Raises LeaseNotCurrent if it is over: stop the work."""
        return models.parse_time((await self.renew(job_id, lease_id)).get("expires_at"))

    async def release_job(self, job_id: str, lease_id: str) -> None:
        await self.release(job_id, lease_id)

    async def get_job_owner(self, job_id: str) -> models.LockInfo | None:
        """The claim, with owner, metadata and expiry; None if the job is free."""
        lock = await self.inspect(job_id)
        return lock if lock.status == "held" else None

    async def list_claimed_jobs(self, prefix: str | None = None) -> list[models.LockInfo]:
        return [lock async for lock in self.locks(prefix=prefix)]
