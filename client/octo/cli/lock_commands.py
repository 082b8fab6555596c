"""octo lock acquire, renew, release, force-release, gc; octo claim-next."""

from __future__ import annotations

import sys
from typing import Any

from octo import answers, errors
from octo.cli.connecting import connect, owner_of, recall, remember, state_of
from octo.cli.output import Output, at, unix_ms, visible
from octo.cli.spinner import Spinner
from octo.grants import Grant


def told(lease: Grant) -> dict[str, Any]:
    return {
        "resource": lease.name,
        "owner": lease.owner,
        "metadata": lease.metadata,
        "lease_id": lease.lease_id,
        "fencing_token": lease.fencing_token,
        "expires_unix_ms": unix_ms(lease.expires_at),
    }


def lines_of(lease: Grant, title: str = "Lock acquired") -> list[str]:
    return [
        title,
        f"  Resource: {lease.name}",
        f"  Owner: {visible(lease.owner or '')}",
        f"  Fencing token: {lease.fencing_token}",
        f"  Expires: {at(lease.expires_at)}",
    ]


def acquire(arguments: Any, output: Output) -> None:
    with connect(arguments) as client, Spinner(arguments.resource) as spinner:
        lease = client.acquire(
            arguments.resource,
            ttl=arguments.ttl,
            wait=arguments.wait,
            owner=owner_of(arguments),
            metadata=arguments.metadata,
            lock_delay=arguments.lock_delay,
            session_id=arguments.session_id,
            on_wait=spinner.show,
        )
        spinner.stop()
        remember(client, lease)
        output.done({"lock": told(lease)}, lines_of(lease))


def claim_next(arguments: Any, output: Output) -> None:
    names = arguments.names
    if names == ["-"]:
        names = sys.stdin.read().split()
    with connect(arguments) as client, Spinner("a free lock") as spinner:
        lease = client.claim_next(
            names,
            ttl=arguments.ttl,
            wait=arguments.wait,
            owner=owner_of(arguments),
            metadata=arguments.metadata,
            on_wait=spinner.show,
        )
        spinner.stop()
        remember(client, lease)
        output.done({"lock": told(lease)}, lines_of(lease))


def renew(arguments: Any, output: Output) -> None:
    name = arguments.resource
    with connect(arguments) as client:
        kept = None if arguments.lease_id else recall(client, name)
        lease_id = arguments.lease_id or (kept.lease_id if kept else "")
        ttl = arguments.ttl or (kept.ttl if kept else None)
        try:
            renewed = client.renew(name, lease_id, ttl=ttl)
        except errors.LeaseNotCurrent:
            state_of(client).forget(name, lease_id)
            raise
        expires_at = answers.time(renewed.get("expires_at"))
        if kept is not None:
            state_of(client).remember(kept._replace(expires_unix_ms=unix_ms(expires_at) or 0, ttl=ttl))
    lock = {
        "resource": name,
        "fencing_token": renewed.get("fencing_token"),
        "expires_unix_ms": unix_ms(expires_at),
    }
    output.done({"lock": lock}, ["Lock renewed", f"  Resource: {name}", f"  Expires: {at(expires_at)}"])


def release(arguments: Any, output: Output) -> None:
    name = arguments.resource
    with connect(arguments) as client:
        lease_id = arguments.lease_id or recall(client, name).lease_id
        try:
            client.release(name, lease_id)
        except errors.LeaseNotCurrent:
            state_of(client).forget(name, lease_id)
            raise
        state_of(client).forget(name, lease_id)
    output.done({"lock": {"resource": name, "status": "released"}}, ["Lock released", f"  Resource: {name}"])


def force_release(arguments: Any, output: Output) -> None:
    """Without a guard from the caller, the one who holds it now: whoever comes in between is left alone."""
    name = arguments.resource
    with connect(arguments) as client:
        guard = arguments.fencing_token
        if guard is None:
            guard = client.inspect(name).fencing_token
        previous = client.force_release(
            name, reason=arguments.reason, fencing_token=guard, lock_delay=arguments.lock_delay
        )
    data = {
        "resource": name,
        "status": "released",
        "previous": {
            "owner": previous.owner,
            "metadata": previous.metadata,
            "fencing_token": previous.fencing_token,
            "expires_unix_ms": unix_ms(previous.expires_at),
        },
    }
    output.done({"lock": data}, ["Lock released by force", f"  Resource: {name}", f"  Owner was: {previous.owner}"])


def gc(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        over = state_of(client).forget_over()
    count = f"{len(over)} remembered lease{'' if len(over) == 1 else 's'}"
    output.done({"forgotten": over}, [f"Forgot {count}. The server expires locks by itself."])
