"""octo run: a command that runs only while its locks are held."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from types import FrameType
from typing import Any

from octo import clock, errors
from octo.cli.context import Spinner, options_of
from octo.cli.output import ExitCode, Output, UsageError
from octo.cli.watchdog import (
    GRACE_SECONDS,
    POLL_SECONDS,
    StopSchedule,
    Watchdog,
    is_gone,
    send,
    start,
    stop,
    stop_schedule,
)
from octo.client import Client
from octo.lease import LeaseEvent
from octo.leases import Lease, Leases
from octo.models import Holder, format_time

# A server that is being restarted should not fail a deployment.
RETRY_SECONDS = 30.0
FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
NOT_EXECUTABLE, NO_SUCH_COMMAND = 126, 127


def run(client: Client, arguments: Any, output: Output) -> int:
    arguments.names += arguments.more or []
    if not arguments.names:
        raise UsageError("Name the lock: octo run deploy-main -- ./deploy.sh")
    if not arguments.child:
        raise UsageError("Say what to run, after `--`: octo run deploy-main -- ./deploy.sh")
    if not hasattr(os, "fork"):
        raise errors.ConfigurationError("octo run needs process groups, which this system does not have.")
    if arguments.slots and len(arguments.names) > 1:
        raise UsageError("--slots is for one name.")
    on_held = arguments.on_held or ("wait" if arguments.wait else "fail")
    if on_held == "wait" and arguments.wait is None:
        arguments.wait = math.inf
    elif on_held != "wait":
        arguments.wait = None
    client.retry_for = RETRY_SECONDS
    # Before the first request, as the client's requests run on a thread.
    watchdog = Watchdog()
    try:
        return _run(client, arguments, output, watchdog, on_held)
    finally:
        watchdog.finish()


def _run(client: Client, arguments: Any, output: Output, watchdog: Watchdog, on_held: str) -> int:
    events = Events(file=arguments.events_fd if arguments.events_fd is not None else (2 if arguments.events else None))
    try:
        leases = _acquire(client, arguments, events)
    except errors.LockHeld as held:
        if on_held == "skip" and not isinstance(held, errors.LockTimeout):
            output.note(f"{held} Skipped.")
            if output.as_json:
                output.result({"run": {"exit_code": 0, "skipped": True}})
            return ExitCode.DONE
        code = output.error(held)
        return arguments.conflict_exit_code if arguments.conflict_exit_code is not None else code
    for lease in leases:
        events.lease("acquired", lease)
    code = Supervisor(leases, arguments.child, events, watchdog).run()
    if output.as_json:
        locks = [
            {"resource": lease.name, "fencing_token": lease.fencing_token, "status": lease.status.value}
            for lease in leases
        ]
        output.result({"run": {"exit_code": int(code), "locks": locks}})
    return code


def _acquire(client: Client, arguments: Any, events: Events) -> Leases:
    names: list[str] = arguments.names
    with Spinner(", ".join(names)) as spinner:

        def on_wait(held: Holder) -> None:
            events.waiting(held)
            spinner.show(held)

        options: Any = {**options_of(arguments, spinner), "on_wait": on_wait}
        if getattr(arguments, "candidate", None):
            return Leases([client.campaign(names[0], arguments.candidate, **options)])
        if arguments.slots:
            semaphore = client.semaphore(names[0], slots=arguments.slots)
            return Leases([client.claim_next(semaphore.slots, **options)])
        if len(names) > 1:
            return client.acquire_all(names, **options)
        return Leases([client.acquire(names[0], **options)])


class Events:
    """JSON lines about the leases. If no process reads them any more, the work goes on."""

    def __init__(self, *, file: int | None) -> None:
        self._file = file
        self._waiting_for: Holder | None = None

    def print(self, event: str, **facts: Any) -> None:
        if self._file is None:
            return
        at = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        given = {field: value for field, value in facts.items() if value is not None}
        line = json.dumps({"event": event, "at": at, **given}, ensure_ascii=False, default=format_time)
        with suppress(OSError):
            os.write(self._file, f"{line}\n".encode())

    def waiting(self, held: Holder) -> None:
        """Once for each holder and length of the queue."""
        before, self._waiting_for = self._waiting_for, held
        if before and (before.fencing_token, before.waiters) == (held.fencing_token, held.waiters):
            return
        self.print("waiting", resource=held.name, owner=held.owner, waiters=held.waiters, expires_at=held.expires_at)

    def lease(self, event: str, lease: Lease, detail: str = "") -> None:
        self.print(
            event, resource=lease.name, fencing_token=lease.fencing_token, owner=lease.owner,
            expires_at=lease.expires_at, detail=detail or None,
        )  # fmt: skip


class Supervisor:
    """The child is stopped when a lease is over, the leases are released when the child is done. Everything happens on
    the main thread, woken by signals and by the renewing thread over a pipe."""

    def __init__(self, leases: Leases, command: Sequence[str], events: Events, watchdog: Watchdog) -> None:
        self._leases = leases
        self._command = command
        self._events = events
        self._watchdog = watchdog
        self._ttl = max(1.0, min(lease.remaining for lease in leases))
        self._child = 0
        self._exit_code: int | None = None
        self._stopping_since: float | None = None
        self._kill_at = 0.0
        self._terminal = Terminal()
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)

    def run(self) -> int:
        """The exit code of `octo run`."""
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for name in (*FORWARDED, "SIGCHLD", "SIGCONT"):
            signal.signal(getattr(signal, name), self._on_signal)
        try:
            return self._run_child()
        finally:
            self._terminal.give(os.getpgrp())
            signal.set_wakeup_fd(-1)

    def _run_child(self) -> int:
        first = self._leases[0]
        leases = [
            {"name": one.name, "lease_id": one.lease_id, "fencing_token": one.fencing_token} for one in self._leases
        ]
        environment = os.environ | {
            "OCTO_LOCK": first.name,
            "OCTO_LEASE_ID": first.lease_id,
            "OCTO_FENCING_TOKEN": str(first.fencing_token),
            "OCTO_LEASES": json.dumps(leases),
        }
        try:
            self._child = start(self._command, environment)
        except OSError as problem:
            self._release()
            sys.stderr.write(f"octo: {self._command[0]}: {problem.strerror}\n")
            return NO_SUCH_COMMAND if isinstance(problem, FileNotFoundError) else NOT_EXECUTABLE
        self._watchdog.watch(self._child)
        self._watchdog.schedule(self._schedule())
        self._terminal.give(self._child)
        # It may have tried to read before the terminal was its own.
        send(self._child, signal.SIGCONT)
        for lease in self._leases:
            lease.observe(partial(self._on_event, lease))
            lease.start_renewing()
        self._wait()
        if not is_gone(self._child):
            # What the command left running in its group must not work on without the lease.
            stop(self._child, kill_at=min(clock.now() + GRACE_SECONDS, self._schedule().kill_at))
        ended = next((lease for lease in self._leases if lease.lost), None)
        if ended is not None or self._stopping_since is not None:
            self._release(quietly=True)
            sys.stderr.write(f"octo: the lease of {(ended or first).name} is over; the command was stopped.\n")
            return ExitCode.LEASE_LOST
        self._release()
        assert self._exit_code is not None
        return self._exit_code if self._exit_code >= 0 else 128 - self._exit_code

    def _schedule(self) -> StopSchedule:
        return stop_schedule(deadline=min(lease.deadline for lease in self._leases), ttl=self._ttl)

    def _wait(self) -> None:
        """Until the child has ended. The deadline comes first: this process may have been paused for long."""
        while True:
            self._enforce_deadline()
            if self._child_ended():
                return
            next_at = self._kill_at if self._stopping_since is not None else self._schedule().term_at
            select.select([self._woken], [], [], min(1.0, max(POLL_SECONDS, next_at - clock.now())))
            with suppress(BlockingIOError):
                os.read(self._woken, 4096)

    def _enforce_deadline(self) -> None:
        now = clock.now()
        over = [lease for lease in self._leases if lease.check_expired()]
        times = self._schedule()
        if self._stopping_since is None and (over or now >= times.term_at):
            if not over:
                # The lease is still ours, but there is no longer the time to wait for a renewal.
                self._events.lease("uncertain", self._leases[0], "There is no time left to renew: stopping.")
            self._stopping_since = now
            self._kill_at = min(now + GRACE_SECONDS, times.kill_at)
            self._watchdog.schedule(StopSchedule(math.inf, self._kill_at))
            send(self._child, signal.SIGTERM)
            # A stopped process does not end.
            send(self._child, signal.SIGCONT)
        if self._stopping_since is not None and now >= self._kill_at:
            send(self._child, signal.SIGKILL)

    def _child_ended(self) -> bool:
        pid, status = os.waitpid(self._child, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return False
        if os.WIFSTOPPED(status):
            self._pause_too()
            return False
        self._exit_code = os.waitstatus_to_exitcode(status)
        return True

    def _pause_too(self) -> None:
        """Ctrl-Z stopped the child; the shell gets its prompt when we stop as well. Without a terminal another process
        stopped it, and renewing goes on."""
        if not self._terminal.is_ours:
            return
        self._terminal.give(os.getpgrp())
        os.kill(os.getpid(), signal.SIGSTOP)
        # Continued, maybe much later: the deadline comes first.
        self._enforce_deadline()
        self._terminal.give(self._child)
        send(self._child, signal.SIGCONT)

    def _release(self, *, quietly: bool = False) -> None:
        for lease in self._leases:
            try:
                lease.release(retry_for=0 if quietly else None)
            except errors.OctoError as problem:
                if not quietly:
                    sys.stderr.write(f"octo: {lease.name} could not be released: {problem} It will expire.\n")

    def _on_event(self, lease: Lease, event: LeaseEvent, detail: str) -> None:
        """On the renewing thread, or on ours."""
        self._events.lease(event.value, lease, detail)
        if event.value == "renewed" and self._stopping_since is None:
            self._watchdog.schedule(self._schedule())
        with suppress(OSError):
            os.write(self._wake, b"\0")

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if signal.Signals(number).name in FORWARDED and self._child:
            send(self._child, number)


class Terminal:
    """Gives the terminal to a process group, so that the child can be used as if there were no `octo run`."""

    def __init__(self) -> None:
        self.is_ours = False
        with suppress(OSError):
            if os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp():
                self.is_ours = True
                # Giving it from the background would stop us otherwise.
                signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    def give(self, group: int) -> None:
        if self.is_ours:
            with suppress(OSError):
                os.tcsetpgrp(0, group)
