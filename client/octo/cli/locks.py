"""octo lock, octo jobs, octo claim-next, octo acquire-all."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timezone
from itertools import islice
from typing import Any

from octo import errors
from octo.cli.context import RETRY_SECONDS, Spinner, options_of, save, saved_leases
from octo.cli.output import Output, UsageError, colorize, expires, format_duration, sanitize, table, unix_ms, until
from octo.cli.saved_leases import SavedLeases
from octo.client import Client
from octo.leases import Lease
from octo.models import JOB_TTL, LockInfo, NameConflict, PreviousHolder, WatchEvent, format_time, parse_time

REFRESH_SECONDS = 1.0
MAX_CHECKED = 1000
WATCH_RETRY_SECONDS = 10 * RETRY_SECONDS


def record(lock: Lease | LockInfo | PreviousHolder | WatchEvent) -> dict[str, Any]:
    """A lock, a lease or an event in JSON: the same words for all."""
    fields: dict[str, Any] = {"resource": lock.lock_name if isinstance(lock, WatchEvent) else lock.name}
    for field in ("event", "id", "status", "owner", "metadata", "fencing_token", "waiters"):
        value = getattr(lock, field, None)
        if isinstance(value, str | int) or field in ("owner", "metadata", "fencing_token"):
            fields[field] = value
    for field in ("acquired_at", "expires_at", "observed_at"):
        if (at := getattr(lock, field, None)) is not None:
            fields[field] = at
    fields["expires_unix_ms"] = unix_ms(lock.expires_at)
    if isinstance(lock, Lease):
        # The nonce of an acquisition, in the words of grite; unlike the lease id it is no secret.
        fields |= {"lease_id": lock.lease_id, "nonce": str(lock.fencing_token)}
    return fields


def _acquired(lease: Lease, title: str = "Lock acquired") -> list[str]:
    return [
        title,
        f"  Resource: {lease.name}",
        f"  Owner: {sanitize(lease.owner or '')}",
        f"  Fencing token: {lease.fencing_token}",
        f"  Expires: {expires(lease.expires_at)}",
    ]


def acquire(client: Client, arguments: Any, output: Output) -> None:
    if arguments.noun == "job":
        arguments.ttl = arguments.ttl or JOB_TTL
    with Spinner(arguments.resource) as spinner:
        lease = client.acquire(arguments.resource, **options_of(arguments, spinner))
    save(client, arguments, lease)
    output.success(
        {arguments.noun: record(lease)}, _acquired(lease, "Job claimed" if arguments.noun == "job" else "Lock acquired")
    )


def claim_next(client: Client, arguments: Any, output: Output) -> None:
    with Spinner("a free lock") as spinner:
        lease = client.claim_next(_names(arguments), **options_of(arguments, spinner))
    save(client, arguments, lease)
    output.result({"lock": record(lease)}, _acquired(lease))


def acquire_all(client: Client, arguments: Any, output: Output) -> None:
    names = _names(arguments)
    with Spinner(", ".join(names)) as spinner:
        leases = client.acquire_all(names, **options_of(arguments, spinner))
    save(client, arguments, *leases)
    output.success(
        {"locks": [record(lease) for lease in leases]}, [line for lease in leases for line in _acquired(lease)]
    )


def _names(arguments: Any) -> list[str]:
    names: list[str] = arguments.names
    return sys.stdin.read().split() if names == ["-"] else names


def renew(client: Client, arguments: Any, output: Output) -> None:
    name = arguments.resource
    saved = saved_leases(client, arguments)
    lease = None if arguments.lease_id else saved.load(name)
    lease_id = arguments.lease_id or (lease.lease_id if lease else "")
    ttl = arguments.ttl or (lease.ttl if lease else None)
    try:
        renewed = client.renew(name, lease_id, ttl=ttl)
    except errors.LeaseNotCurrent:
        saved.delete(lease_id)
        raise
    expires_at = parse_time(renewed["expires_at"])
    if lease is not None:
        saved.save(lease._replace(expires_unix_ms=unix_ms(expires_at) or 0, ttl=ttl))
    lock = {
        "resource": name,
        "fencing_token": renewed.get("fencing_token"),
        "expires_at": expires_at,
        "expires_unix_ms": unix_ms(expires_at),
    }
    title = "Job kept" if arguments.command == "jobs" else "Lock renewed"
    output.success({arguments.noun: lock}, [title, f"  Resource: {name}", f"  Expires: {expires(expires_at)}"])


def release(client: Client, arguments: Any, output: Output) -> None:
    name = arguments.resource
    saved = saved_leases(client, arguments)
    lease_id = arguments.lease_id or saved.load(name).lease_id
    try:
        client.release(name, lease_id)
    except errors.LeaseNotCurrent:
        saved.delete(lease_id)
        raise
    saved.delete(lease_id)
    title = "Job released" if arguments.command == "jobs" else "Lock released"
    output.success({arguments.noun: {"resource": name, "status": "released"}}, [title, f"  Resource: {name}"])


def force_release(client: Client, arguments: Any, output: Output) -> None:
    """Without a fencing token, the lease that is held now: the next holder is left alone."""
    name = arguments.resource
    guard = arguments.fencing_token
    if guard is None:
        guard = client.inspect(name).fencing_token
    previous = client.force_release(name, reason=arguments.reason, fencing_token=guard, lock_delay=arguments.lock_delay)
    data = {"resource": name, "status": "released", "previous": record(previous)}
    output.success(
        {"lock": data}, ["Lock force-released", f"  Resource: {name}", f"  Owner was: {sanitize(previous.owner or '')}"]
    )


def gc(client: Client, arguments: Any, output: Output) -> None:
    over = saved_leases(client, arguments).prune()
    count = f"{len(over)} saved lease{'' if len(over) == 1 else 's'}"
    output.success({"forgotten": over}, [f"Deleted {count} that ended. The server expires locks by itself."])


def _conflicts(client: Client, names: Sequence[str], saved: SavedLeases) -> list[NameConflict]:
    try:
        return list(client.check(names, lease_ids=saved.held_by_this_job()).conflicts) if names else []
    except errors.ApiError as problem:
        if problem.status not in (404, 405):
            raise
        # A server without namespaces.
        return []


def status(client: Client, arguments: Any, output: Output) -> None:
    saved = saved_leases(client, arguments)
    ours = {name: lease.fencing_token for name, lease in saved.all().items() if not lease.is_over()}
    if arguments.resource:
        lock = client.inspect(arguments.resource)
        locks = [lock] if lock.status == "held" else []
    else:
        locks = list(client.locks(prefix=arguments.prefix))
    if arguments.mine:
        locks = [lock for lock in locks if ours.get(lock.name) == lock.fencing_token]
    asked = [arguments.resource] if arguments.resource else list(ours)[:MAX_CHECKED]
    conflicts = _conflicts(client, asked, saved)
    data = [
        {**output.holder(one), "conflicts_with": conflict.name} for conflict in conflicts for one in conflict.blocked_by
    ]
    if arguments.resource:
        lines = _one(lock)
    else:
        rows = [(lock.name, lock.owner or lock.holder_id or "", until(lock.expires_at)) for lock in locks]
        lines = ["Active Locks:", *table(rows, indent="  ")] if rows else ["No active locks."]
    others = [
        (conflict.name, "overlaps", one.name, one.owner or "", until(one.expires_at))
        for conflict in conflicts
        for one in conflict.blocked_by
        if one.name != arguments.resource
    ]
    lines += ["Conflicts:", *table(others, indent="  ")] if others else []
    output.result({"locks": [record(lock) for lock in locks], "conflicts": data}, lines)


def _one(lock: LockInfo) -> list[str]:
    if lock.status == "free":
        return [f"{lock.name} is free"]
    if lock.status == "delayed":
        frozen = f": frozen, {sanitize(lock.reason or '')}" if lock.frozen else ""
        return [f"{lock.name} is free, and closed until {format_time(lock.available_at)}{frozen}"]
    lines = [lock.name, f"  Owner: {sanitize(lock.owner or lock.holder_id or '')}"]
    if lock.metadata:
        lines.append(f"  Metadata: {sanitize(lock.metadata)}")
    lines.append(f"  Fencing token: {lock.fencing_token}")
    lines.append(f"  Expires: {expires(lock.expires_at)} ({until(lock.expires_at)})")
    if lock.waiters:
        lines.append(f"  Waiting: {lock.waiters}")
    return lines


def listing(client: Client, arguments: Any, output: Output) -> None:
    before: list[LockInfo] | None = None
    while True:
        filters = {field: getattr(arguments, field) for field in ("prefix", "owner", "status", "sort")}
        locks = list(client.locks(**filters))
        on_screen = arguments.watch and not output.as_json and sys.stdout.isatty()
        if on_screen or locks != before:
            if on_screen:
                sys.stdout.write("\x1b[H\x1b[J")
            lines = [lock.name for lock in locks] if arguments.names else _table(locks)
            output.result({"locks": [record(lock) for lock in locks]}, lines)
        if not arguments.watch:
            return
        before = locks
        time.sleep(REFRESH_SECONDS)


def _table(locks: list[LockInfo]) -> list[str]:
    now = datetime.now(timezone.utc)
    rows = [("NAME", "OWNER", "HELD FOR", "EXPIRES IN", "WAITING", "METADATA")]
    for lock in locks:
        held = format_duration((now - lock.acquired_at).total_seconds()) if lock.acquired_at else lock.status
        end = lock.expires_at or lock.available_at
        left = format_duration((end - now).total_seconds()) if end else ""
        rows.append((lock.name, lock.owner or "", held, left, str(lock.waiters or ""), lock.metadata or ""))
    heading, *lines = table(rows)
    return [colorize(heading, "bold", sys.stdout), *lines]


def history(client: Client, arguments: Any, output: Output) -> None:
    events = list(client.history(arguments.resource, limit=arguments.limit))
    columns = ("at", "kind", "lock_name", "owner", "fencing_token", "reason")
    rows = [[str(event.get(column) or "") for column in columns] for event in events]
    output.result({"events": events}, table(rows) if rows else ["No events."])


def watch(client: Client, arguments: Any, output: Output) -> None:
    if arguments.resource and arguments.prefix is not None:
        raise UsageError("Watch one resource or a prefix, not both.")
    client.retry_for = WATCH_RETRY_SECONDS
    with closing(client.watch(arguments.resource, prefix=arguments.prefix, after=arguments.after)) as events:
        for event in islice(events, arguments.limit or None):
            kind = (event.status if event.event == "snapshot" else event.event) or ""
            facts = [format_time(event.observed_at) or "", f"{kind:<14}", event.lock_name, sanitize(event.owner or "")]
            line = "  ".join([*facts, until(event.expires_at)]).rstrip()
            output.result({field: value for field, value in record(event).items() if value is not None}, [line])


def job_owner(client: Client, arguments: Any, output: Output) -> None:
    lock = client.get_job_owner(arguments.resource)
    if lock is None:
        raise errors.NotFound(f"{arguments.resource} has no owner.", status=404)
    lines = [f"{arguments.resource} is owned by {sanitize(lock.owner or '')}, {until(lock.expires_at)}"]
    if lock.metadata:
        lines.append(f"  {sanitize(lock.metadata)}")
    output.result({"job": record(lock)}, lines)


def list_jobs(client: Client, arguments: Any, output: Output) -> None:
    jobs = client.list_claimed_jobs(arguments.prefix)
    rows = [(job.name, job.owner or "", until(job.expires_at), job.metadata or "") for job in jobs]
    output.result({"jobs": [record(job) for job in jobs]}, table(rows) if rows else ["No job is claimed."])
