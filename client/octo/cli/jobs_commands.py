"""octo jobs: the locks, in the words of jobs and owners."""

from __future__ import annotations

from typing import Any

from octo import answers, errors
from octo.cli.connecting import connect, owner_of, recall, remember, state_of
from octo.cli.lock_commands import lines_of, told
from octo.cli.output import Output, at, table, unix_ms, until, visible
from octo.cli.spinner import Spinner
from octo.cli.status_commands import told as told_of_lock
from octo.terms import JOB_TTL


def claim(arguments: Any, output: Output) -> None:
    with connect(arguments) as client, Spinner(arguments.job) as spinner:
        lease = client.acquire(
            arguments.job,
            ttl=arguments.ttl or JOB_TTL,
            wait=arguments.wait,
            owner=owner_of(arguments),
            metadata=arguments.metadata,
            on_wait=spinner.show,
        )
        spinner.stop()
        remember(client, lease)
    output.done({"job": told(lease)}, lines_of(lease, "Job claimed"))


def heartbeat(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        kept = None if arguments.lease_id else recall(client, arguments.job)
        lease_id = arguments.lease_id or (kept.lease_id if kept else "")
        expires_at = client.heartbeat_job(arguments.job, lease_id)
        if kept is not None:
            state_of(client).remember(kept._replace(expires_unix_ms=unix_ms(expires_at) or 0))
    data = {"resource": arguments.job, "expires_unix_ms": unix_ms(expires_at)}
    output.done({"job": data}, [f"{arguments.job} is claimed until {at(expires_at)}"])


def release(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        lease_id = arguments.lease_id or recall(client, arguments.job).lease_id
        try:
            client.release_job(arguments.job, lease_id)
        finally:
            state_of(client).forget(arguments.job, lease_id)
    output.done({"job": {"resource": arguments.job, "status": "released"}}, [f"{arguments.job} is released"])


def owner(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        lock = client.get_job_owner(arguments.job)
    if lock is None:
        raise errors.NotFound(f"Nobody owns {arguments.job}.", status=404)
    lines = [f"{arguments.job} is owned by {visible(lock.owner or '')}, {until(lock.expires_at)}"]
    if lock.metadata:
        lines.append(f"  {visible(lock.metadata)}")
    output.done({"job": told_of_lock(lock)}, lines)


def listing(arguments: Any, output: Output) -> None:
    with connect(arguments) as client:
        jobs: list[answers.Lock] = client.list_claimed_jobs(arguments.prefix)
    rows = [(job.name, job.owner or "", until(job.expires_at), job.metadata or "") for job in jobs]
    output.done({"jobs": [told_of_lock(job) for job in jobs]}, table(rows) if rows else ["No job is claimed."])
