"""octo lock status, list, history: looking, without changing anything."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timezone
from typing import Any

from octo import answers, durations
from octo.cli.connecting import connect, state_of
from octo.cli.output import Output, at, is_colourful, painted, table, unix_ms, until, visible
from octo.client import Client

REFRESH_SECONDS = 1.0


def told(lock: answers.Lock) -> dict[str, Any]:
    return {
        "resource": lock.name,
        "status": lock.status,
        "owner": lock.owner,
        "metadata": lock.metadata,
        "fencing_token": lock.fencing_token,
        "acquired_unix_ms": unix_ms(lock.acquired_at),
        "expires_unix_ms": unix_ms(lock.expires_at),
        "waiters": lock.waiters,
    }


def _conflicts(client: Client, locks: list[answers.Lock]) -> list[dict[str, Any]]:
    """Locks that we remember to hold and that have another owner by now."""
    ours = state_of(client).all()
    return [
        told(lock)
        for lock in locks
        if lock.name in ours and not ours[lock.name].is_over() and ours[lock.name].fencing_token != lock.fencing_token
    ]


def status(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        if arguments.resource:
            lock = client.inspect(arguments.resource)
            locks = [lock] if lock.status == "held" else []
            lines = _one(lock)
        else:
            locks = list(client.locks(prefix=arguments.prefix))
            lines = _all(locks)
        data = {"locks": [told(lock) for lock in locks], "conflicts": _conflicts(client, locks)}
    output.done(data, lines)


def _one(lock: answers.Lock) -> list[str]:
    if lock.status == "free":
        return [f"{lock.name} is free"]
    if lock.status == "delayed":
        return [f"{lock.name} is free, and closed until {at(lock.available_at)}"]
    lines = [lock.name, f"  Owner: {visible(lock.owner or lock.holder_id or '')}"]
    if lock.metadata:
        lines.append(f"  Metadata: {visible(lock.metadata)}")
    if lock.fencing_token is not None:
        lines.append(f"  Fencing token: {lock.fencing_token}")
    lines.append(f"  Expires: {at(lock.expires_at)} ({until(lock.expires_at)})")
    if lock.waiters:
        lines.append(f"  Waiting: {lock.waiters}")
    return lines


def _all(locks: list[answers.Lock]) -> list[str]:
    if not locks:
        return ["No active locks."]
    rows = [(lock.name, lock.owner or lock.holder_id or "", until(lock.expires_at)) for lock in locks]
    return ["Active Locks:", *table(rows, indent="  ")]


def listing(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        before: list[answers.Lock] | None = None
        while True:
            locks = list(
                client.locks(
                    prefix=arguments.prefix, owner=arguments.owner, status=arguments.status, sort=arguments.sort
                )
            )
            on_screen = arguments.watch and not output.as_json and sys.stdout.isatty()
            if on_screen or locks != before:
                if on_screen:
                    sys.stdout.write("\x1b[H\x1b[J")
                lines = [lock.name for lock in locks] if arguments.names else _table(locks)
                output.done({"locks": [told(lock) for lock in locks]}, lines)
            if not arguments.watch:
                return
            before = locks
            time.sleep(REFRESH_SECONDS)


def _table(locks: list[answers.Lock]) -> list[str]:
    now = datetime.now(timezone.utc)
    rows = [("NAME", "OWNER", "HELD FOR", "EXPIRES IN", "WAITING", "METADATA")]
    for lock in locks:
        held = durations.short((now - lock.acquired_at).total_seconds()) if lock.acquired_at else lock.status
        ends = lock.expires_at or lock.available_at
        left = durations.short((ends - now).total_seconds()) if ends else ""
        rows.append((lock.name, lock.owner or "", held, left, str(lock.waiters or ""), lock.metadata or ""))
    heading, *lines = table(rows)
    return [painted(heading, "bold", sys.stdout) if is_colourful(sys.stdout) else heading, *lines]


def history(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        events = list(client.history(arguments.resource, limit=arguments.limit))
    rows = [
        (
            at(answers.time(event.get("at"))),
            event.get("kind") or "",
            event.get("lock_name") or "",
            event.get("owner") or "",
            str(event.get("fencing_token") or ""),
            event.get("reason") or "",
        )
        for event in events
    ]
    output.done({"events": events}, table(rows) if rows else ["Nothing has happened."])
