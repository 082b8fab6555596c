"""The tools: what each takes, what it returns, and the text by which a model chooses it.

Contention is a result, never an error. An error is a ToolError whose text says what to do next.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from inspect import signature
from typing import Annotated, Any, Literal, TypeVar, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, JsonValue, create_model
from typing_extensions import NotRequired, TypedDict

from octo import errors
from octo.async_client import AsyncClient
from octo.async_leases import AsyncLease
from octo.models import JOB_TTL, Entry, LockInfo, format_time
from octo.operations import entry_path
from octo.protocol import with_query

MAX_WAIT_SECONDS = 3600
# A client that asked for progress hears of a wait this often.
PROGRESS_SECONDS = 5.0
MAX_LISTED = 1000
_WRITTEN = ("written_by", "written_at")

Progress = Callable[[float, str], Awaitable[None]]
Result = TypeVar("Result")


class ToolError(Exception):
    """The text is for the model."""


@dataclass(frozen=True)
class Call:
    """What a tool works with, besides its arguments. An actor's token belongs to a layer of a run; `session_id` is the
    session that new leases end with."""

    client: AsyncClient
    progress: Progress
    is_actor: bool = False
    session_id: str | None = None

    def in_namespace(self, namespace: Literal["layer", "run"], name: str) -> str:
        return f"{namespace}:{name.removeprefix(f'{namespace}:')}" if self.is_actor else name

    async def wait_for(self, work: Coroutine[Any, Any, Result], *, seconds: float, message: str) -> Result:
        """Reports progress while it waits. Cancelling the call cancels the request, which leaves the queue."""
        task = asyncio.ensure_future(work)
        waited = 0.0
        try:
            while not (await asyncio.wait({task}, timeout=PROGRESS_SECONDS))[0]:
                waited += PROGRESS_SECONDS
                await self.progress(min(1.0, waited / seconds) if seconds else 1.0, message)
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})


Name = Annotated[str, Field(min_length=1, max_length=256)]
Seconds = Annotated[int, Field(ge=1, le=31_536_000)]
WaitSeconds = Annotated[
    int, Field(ge=0, le=MAX_WAIT_SECONDS, description="How long to wait in the queue if it is held. 0: do not wait.")
]
Owner = Annotated[
    str, Field(max_length=128, description="Who you are, for people who look. Default: the token's name.")
]
MetadataText = Annotated[
    str, Field(description="What others should know, such as 'run=https://ci/42 branch=main'. Short; no secrets.")
]
LeaseId = Annotated[
    str, Field(min_length=1, max_length=400, description="The lease_id that acquiring returned. Keep it secret.")
]
Path = Annotated[
    str, Field(min_length=1, max_length=1024, description="Starts with /ref/, /peer/<actor>/, /peer/self/ or /shared/.")
]


class Lease(TypedDict):
    """Either a lease (acquired is true) or what stands in the way."""

    acquired: bool
    name: NotRequired[str]
    lease_id: NotRequired[str]
    fencing_token: NotRequired[int]
    version: NotRequired[int]
    acquired_at: NotRequired[str | None]
    expires_at: NotRequired[str | None]
    renew_after_secs: NotRequired[int]
    holder: NotRequired[str | None]
    holder_metadata: NotRequired[str | None]
    retry_after_ms: NotRequired[int | None]
    queue_position: NotRequired[int | None]
    reason: NotRequired[str]


class Renewed(TypedDict):
    """If renewed is false the lease is over: stop the work it protected."""

    renewed: bool
    fencing_token: NotRequired[int | None]
    expires_at: NotRequired[str | None]
    renew_after_secs: NotRequired[int]
    reason: NotRequired[str]


class Released(TypedDict):
    """If ok is false the lease was over before; the job may have had another owner meanwhile."""

    ok: bool
    reason: NotRequired[str]


class JobOwner(TypedDict):
    name: str
    claimed: bool
    owner: NotRequired[str | None]
    metadata: NotRequired[str | None]
    fencing_token: NotRequired[int | None]
    acquired_at: NotRequired[str | None]
    expires_at: NotRequired[str | None]
    waiting: NotRequired[int]


class Jobs(TypedDict):
    jobs: list[JobOwner]
    truncated: bool


class KvEntry(TypedDict):
    """value is a JSON value, or a string: as written, or base64 if encoding says so."""

    path: str
    found: bool
    value: NotRequired[JsonValue]
    encoding: NotRequired[Literal["json", "text", "base64"]]
    version: NotRequired[int]
    written_by: NotRequired[str | None]
    written_at: NotRequired[str | None]
    timed_out: NotRequired[bool]


class KvWritten(TypedDict):
    path: str
    written: bool
    version: NotRequired[int]
    current_version: NotRequired[int]


class KvListed(TypedDict):
    path: str
    version: int
    written_by: NotRequired[str | None]
    written_at: NotRequired[str | None]
    size: NotRequired[int]


class KvPage(TypedDict):
    entries: list[KvListed]
    next_cursor: str | None


class KvDeleted(TypedDict):
    path: str
    deleted: bool


class Identity(TypedDict):
    team: str
    space: str
    token_name: str
    scopes: list[str]
    prefixes: list[str]
    expires_at: str | None
    run_id: NotRequired[str | None]
    layer_id: NotRequired[str | None]
    actor_id: NotRequired[str | None]


@dataclass(frozen=True)
class Tool:
    """A tool that is not `read_only` may be `idempotent` or `destructive`."""

    name: str
    description: str
    arguments: type[BaseModel]
    result: Any
    run: Callable[..., Awaitable[Any]]
    read_only: bool
    idempotent: bool
    destructive: bool


TOOLS: dict[str, Tool] = {}
Run = TypeVar("Run", bound=Callable[..., Awaitable[Any]])


def tool(*, read_only: bool = False, idempotent: bool = False, destructive: bool = False) -> Callable[[Run], Run]:
    """Registers a function: its parameters after the call are the tool's arguments, what it returns is the result, and
    its docstring is the text for the model."""

    def register(run: Run) -> Run:
        hints = get_type_hints(run, include_extras=True)
        _call, *parameters = signature(run).parameters.values()
        fields: dict[str, Any] = {
            one.name: (hints[one.name], ... if one.default is one.empty else one.default) for one in parameters
        }
        arguments = create_model(run.__name__, __config__=ConfigDict(extra="forbid", strict=True), **fields)
        TOOLS[run.__name__] = Tool(
            run.__name__, " ".join((run.__doc__ or "").split()), arguments, hints["return"], run,
            read_only, idempotent or read_only, destructive,
        )  # fmt: skip
        return run

    return register


def _handle(lease_id: str, name: str) -> str:
    """Tools that renew and release take the lease alone, so its id carries the name."""
    return f"{lease_id}/{name}"


def _lease_and_name(handle: str, name: str | None = None) -> tuple[str, str]:
    lease_id, _, named = handle.partition("/")
    if not (name := name or named):
        raise ToolError("lease_id is not one that these tools returned: pass it back unchanged.")
    return lease_id, name


def _half_of(expires_at: datetime | None, acquired_at: datetime | None) -> int:
    if expires_at is None or acquired_at is None:
        return 1
    return max(1, int((expires_at - acquired_at).total_seconds() / 2))


def _acquired(lease: AsyncLease) -> Lease:
    return {
        "acquired": True,
        "name": lease.name,
        "lease_id": _handle(lease.lease_id, lease.name),
        "fencing_token": lease.fencing_token,
        "version": lease.fencing_token,
        "acquired_at": format_time(lease.acquired_at),
        "expires_at": format_time(lease.expires_at),
        "renew_after_secs": _half_of(lease.expires_at, lease.acquired_at),
    }


def _refused(refusal: errors.LockHeld) -> Lease:
    result: Lease = {"acquired": False, "name": refusal.name, "holder": None, "queue_position": None}
    if isinstance(refusal, errors.LockDelayed):
        result["expires_at"] = format_time(refusal.delayed.available_at)
        result["retry_after_ms"] = refusal.delayed.retry_after_ms
        if refusal.delayed.reason is not None:
            # An operator has frozen the name.
            result["reason"] = refusal.delayed.reason
    elif refusal.held is not None:
        held = refusal.held
        result["holder"] = held.owner
        result["holder_metadata"] = held.metadata
        result["expires_at"] = format_time(held.expires_at)
        result["retry_after_ms"] = held.retry_after_ms
        result["queue_position"] = held.waiters + 1
    return result


async def _acquire(
    call: Call, name: str, *, ttl: int, wait: int = 0, owner: str | None = None, metadata: str | None = None
) -> Lease:
    acquiring = call.client.acquire(
        name, ttl=ttl, wait=wait or None, owner=owner, metadata=metadata, session_id=call.session_id
    )
    try:
        return _acquired(await call.wait_for(acquiring, seconds=wait, message=f"waiting for {name}"))
    except errors.LockHeld as refusal:
        return _refused(refusal)


async def _renew(call: Call, handle: str, *, name: str | None = None, ttl: int | None = None) -> Renewed:
    lease_id, name = _lease_and_name(handle, name)
    try:
        answer = await call.client.renew(name, lease_id, ttl=ttl)
    except errors.LeaseNotCurrent as refusal:
        return {"renewed": False, "reason": f"{refusal.details} Stop the work that it protected."}
    return {
        "renewed": True,
        "fencing_token": answer.get("fencing_token"),
        "expires_at": answer["expires_at"],
        "renew_after_secs": max(1, int(answer.get("renew_after_ms") or 1000) // 1000),
    }


async def _release(call: Call, handle: str, *, name: str | None = None) -> Released:
    lease_id, name = _lease_and_name(handle, name)
    try:
        await call.client.release(name, lease_id)
    except errors.LeaseNotCurrent as refusal:
        return {"ok": False, "reason": refusal.details}
    return {"ok": True}


@tool()
async def lease_acquire(call: Call, name: Name, ttl_secs: Seconds, wait_secs: WaitSeconds = 0) -> Lease:
    """Acquire a named lease, so that no other agent works on the same thing. Use it before you change a shared
    resource of your own team or layer. If `acquired` is true the work is yours until `expires_at`: call lease_renew
    after `renew_after_secs`, and lease_release when done. If it is false another agent holds it: read `holder`, work
    on something else, and try again after `retry_after_ms`, or pass wait_secs to wait in a fair queue."""
    return await _acquire(call, call.in_namespace("layer", name), ttl=ttl_secs, wait=wait_secs)


@tool()
async def lease_renew(call: Call, lease_id: LeaseId, ttl_secs: Seconds | None = None) -> Renewed:
    """Extend a lease that you hold, counted from now. Call it at half of the lease's time, as long as you work. If
    `renewed` is false the lease is over and another agent may own the work: stop at once and write nothing more."""
    return await _renew(call, lease_id, ttl=ttl_secs)


@tool(destructive=True)
async def lease_release(call: Call, lease_id: LeaseId) -> Released:
    """Give a lease back as soon as the work is done or abandoned, so that the next agent need not wait for it to
    expire. If `ok` is false the lease was over already."""
    return await _release(call, lease_id)


@tool()
async def run_lease_acquire(call: Call, key: Name, ttl_secs: Seconds, wait_secs: WaitSeconds = 0) -> Lease:
    """As lease_acquire, for a resource that agents of several teams or layers of the same run share: a deployment, a
    port, a path outside your own working directory. When in doubt prefer this one."""
    return await _acquire(call, call.in_namespace("run", key), ttl=ttl_secs, wait=wait_secs)


@tool(destructive=True)
async def run_lease_release(call: Call, lease_id: LeaseId) -> Released:
    """Give back a lease of run_lease_acquire."""
    return await _release(call, lease_id)


@tool()
async def claim_job(
    call: Call, job_id: Name, owner: Owner | None = None, metadata: MetadataText | None = None, ttl: Seconds = JOB_TTL
) -> Lease:
    """Claim a job (an issue, a ticket, a task) before you start on it. Choose a stable job_id that every agent
    derives in the same way, such as issue-1842. If `acquired` is false another agent does it already: do not start;
    pick another job."""
    return await _acquire(call, job_id, ttl=ttl, owner=owner, metadata=metadata)


@tool()
async def heartbeat_job(call: Call, job_id: Name, lease_id: LeaseId) -> Renewed:
    """Say that you still work on a claimed job. Call it at half of the claim's time. If `renewed` is false the job is
    no longer yours: stop."""
    return await _renew(call, lease_id, name=job_id)


@tool(destructive=True)
async def release_job(call: Call, job_id: Name, lease_id: LeaseId) -> Released:
    """Give a claimed job back when it is done or you abandon it."""
    return await _release(call, lease_id, name=job_id)


def _job(lock: LockInfo) -> JobOwner:
    return {
        "name": lock.name,
        "claimed": lock.status == "held",
        "owner": lock.owner,
        "metadata": lock.metadata,
        "fencing_token": lock.fencing_token,
        "acquired_at": format_time(lock.acquired_at),
        "expires_at": format_time(lock.expires_at),
        "waiting": lock.waiters,
    }


@tool(read_only=True)
async def get_job_owner(call: Call, job_id: Name) -> JobOwner:
    """Who works on a job now, with the metadata that they left and when their claim expires."""
    return _job(await call.client.inspect(job_id))


@tool(read_only=True)
async def list_claimed_jobs(
    call: Call,
    prefix: Annotated[str, Field(max_length=256, description="Only jobs whose name starts with this.")] | None = None,
) -> Jobs:
    """All jobs that are claimed now, with their owners. Use it to see what is taken before you choose."""
    return await claimed_jobs(call, prefix)


async def claimed_jobs(call: Call, prefix: str | None = None) -> Jobs:
    jobs: list[JobOwner] = []
    async for lock in call.client.locks(prefix=prefix):
        if len(jobs) == MAX_LISTED:
            return {"jobs": jobs, "truncated": True}
        jobs.append(_job(lock))
    return {"jobs": jobs, "truncated": False}


@tool()
async def claim_next(
    call: Call,
    names: Annotated[list[Name], Field(min_length=1, max_length=1000, description="Jobs, the preferred one first.")],
    owner: Owner | None = None,
    metadata: MetadataText | None = None,
    ttl: Seconds = JOB_TTL,
) -> Lease:
    """Claim one free job of a list, in one step: the first that no other request is changing. Use it to take the next
    item of a backlog that other agents also read: `name` says which one you got."""
    options: Any = {"ttl": ttl, "owner": owner, "metadata": metadata, "session_id": call.session_id}
    try:
        return _acquired(await call.client.claim_next(names, **options))
    except errors.LockHeld as refusal:
        return _refused(refusal)


def _kv_entry(entry: Entry) -> KvEntry:
    value = base64.b64encode(entry.value).decode() if isinstance(entry.value, bytes) else entry.value
    known = {**entry._asdict(), "value": value, "written_at": format_time(entry.written_at)}
    return cast(KvEntry, {"found": True, **known})


async def _kv_write(call: Call, path: str, value: JsonValue, **body: Any) -> KvWritten:
    content = {"value": value, "encoding": "text" if isinstance(value, str) else "json", **body}
    answer = await call.client.request("PUT", path, content, idempotent=not body)
    return {"path": answer["path"], "written": True, "version": answer["version"]}


@tool(read_only=True)
async def kv_get(call: Call, path: Path) -> KvEntry:
    """Read an entry of your layer's shared store. `found` is false if nothing was written there."""
    try:
        return _kv_entry(await call.client.kv.get(path))
    except errors.NotFound:
        return {"path": path, "found": False}


@tool(idempotent=True, destructive=True)
async def kv_set(
    call: Call,
    path: Path,
    value: JsonValue,
    override: Annotated[bool, Field(description="As the layer's lead: write below another actor's /peer/.")] = False,
) -> KvWritten:
    """Write an entry of your layer's shared store: a string, or any JSON value. It replaces what was there; use
    kv_cas if another agent may write the same entry. /ref is the lead's, /peer/self is yours, /shared is
    everyone's."""
    query = {"override": "true" if override else None}
    return await _kv_write(call, with_query(entry_path(path), query), value)


@tool(destructive=True)
async def kv_cas(
    call: Call,
    path: Path,
    value: JsonValue,
    expected_version: Annotated[int, Field(ge=0, description="The version you read; 0: it must not exist.")],
) -> KvWritten:
    """Write an entry only if its version is still the one that you read. If `written` is false another agent was
    faster: read it again (`current_version`), decide anew, and repeat."""
    try:
        return await _kv_write(call, entry_path(path), value, expected_version=expected_version)
    except errors.VersionMismatch as refusal:
        return {"path": path, "written": False, "current_version": refusal.current_version or 0}


@tool(read_only=True)
async def kv_list(
    call: Call,
    glob: Annotated[str, Field(max_length=1024, description="`*` and `?` within a segment, `**` across.")] = "/**",
    limit: Annotated[int, Field(ge=1, le=1000)] = 100,
    cursor: str | None = None,
) -> KvPage:
    """List the entries that you may read, without their values, sorted by path."""
    answer = await call.client.request("GET", with_query("/kv", {"glob": glob, "limit": limit, "cursor": cursor}))
    fields = ("path", "version", *_WRITTEN, "size")
    entries: list[Any] = [{field: entry[field] for field in fields if field in entry} for entry in answer["entries"]]
    return {"entries": entries, "next_cursor": answer.get("next_cursor")}


@tool(read_only=True)
async def kv_wait(
    call: Call,
    path: Path,
    min_version: Annotated[int, Field(ge=1, description="Wait until the entry has at least this version.")] = 1,
    wait_secs: Annotated[int, Field(ge=0, le=MAX_WAIT_SECONDS)] = 30,
) -> KvEntry:
    """Wait until an entry is written, or written again (min_version: the version you know + 1). If `timed_out` is
    true it has not happened yet: wait again or go on without it."""
    waiting = call.client.kv.wait(path, min_version=min_version, timeout=wait_secs)
    entry = await call.wait_for(waiting, seconds=wait_secs, message=f"waiting for {path}")
    result = await kv_get(call, path) if entry is None else _kv_entry(entry)
    result["timed_out"] = entry is None
    return result


@tool(idempotent=True, destructive=True)
async def kv_delete(call: Call, path: Path) -> KvDeleted:
    """Delete an entry that you may write. `deleted` is false if there was none."""
    try:
        await call.client.request("DELETE", entry_path(path))
    except errors.NotFound:
        return {"path": path, "deleted": False}
    return {"path": path, "deleted": True}


@tool(read_only=True)
async def whoami(call: Call) -> Identity:
    """Which team, space and token you act as, what the token permits, and your place in a run, if you are in one."""
    answer = await call.client.request("GET", "/whoami")
    token = answer["token"]
    identity: Identity = {
        "team": answer["team"],
        "space": answer["space"],
        "token_name": token["name"],
        "scopes": answer["scopes"],
        "prefixes": token.get("prefixes") or [],
        "expires_at": token.get("expires_at"),
    }
    actor = answer.get("actor")
    if actor:
        identity |= {"run_id": actor["run_id"], "layer_id": actor["layer_id"], "actor_id": actor["actor_id"]}
    return identity


def as_text(result: Any) -> str:
    return json.dumps(result, ensure_ascii=False, separators=(",", ":"))
