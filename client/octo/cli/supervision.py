"""A child and its lease: the child is stopped when the lease is over, the lease is released when the child is done."""

from __future__ import annotations

import math
import os
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

from octo import clock, errors
from octo.cli.events import Events
from octo.cli.exit_codes import ExitCode
from octo.cli.guard import Guard
from octo.cli.process_groups import Terminal, is_gone, send, start
from octo.cli.stopping import GRACE_SECONDS, StopTimes, stop_times
from octo.leases import Lease
from octo.tenure import Happening, Tenure

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
LOOK_SECONDS = 0.05
NOT_EXECUTABLE, NO_SUCH_COMMAND = 126, 127


class Supervision:
    """Everything happens on the main thread, woken by signals and by the keeper's thread over a pipe."""

    def __init__(self, lease: Lease, command: Sequence[str], events: Events) -> None:
        self._lease = lease
        self._command = command
        self._events = events
        self._ttl = max(1.0, lease.remaining)
        self._child = 0
        self._status: int | None = None
        self._stopping_since: float | None = None
        self._kill_at = 0.0
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)

    def run(self) -> int:
        """The exit code of `octo run`."""
        self._guard = Guard.start()
        terminal = Terminal()
        self._terminal = terminal
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in (*FORWARDED, signal.SIGCHLD, signal.SIGCONT):
            signal.signal(number, self._on_signal)
        try:
            return self._run_child()
        finally:
            terminal.take_back()
            self._guard.finish()
            signal.set_wakeup_fd(-1)

    def _run_child(self) -> int:
        environment = os.environ | {
            "OCTO_LOCK": self._lease.name,
            "OCTO_LEASE_ID": self._lease.lease_id,
            "OCTO_FENCING_TOKEN": str(self._lease.fencing_token),
        }
        try:
            self._child = start(self._command, environment)
        except OSError as problem:
            self._release()
            sys.stderr.write(f"octo: {self._command[0]}: {problem.strerror}\n")
            return NO_SUCH_COMMAND if isinstance(problem, FileNotFoundError) else NOT_EXECUTABLE
        self._guard.watch(self._child)
        self._guard.times(self._times())
        self._terminal.give(self._child)
        self._lease.observe(self._on_happening)
        self._lease.keep()
        self._watch()
        self._stop_leftovers()
        if self._lease.lost or self._stopping_since is not None:
            self._release(quietly=True)
            sys.stderr.write(f"octo: the lease of {self._lease.name} is over; the command was stopped.\n")
            return ExitCode.LEASE_LOST
        self._release()
        assert self._status is not None
        code = os.waitstatus_to_exitcode(self._status)
        return code if code >= 0 else 128 - code

    def _times(self) -> StopTimes:
        return stop_times(deadline=self._lease.deadline, ttl=self._ttl)

    def _watch(self) -> None:
        """Until the child has ended. The deadline comes first: after a pause nobody may have looked for long."""
        while True:
            self._mind_the_lease()
            if self._child_ended():
                return
            now = clock.now()
            next_at = self._kill_at if self._stopping_since is not None else self._times().term_at
            select.select([self._woken], [], [], min(1.0, max(LOOK_SECONDS, next_at - now)))
            with suppress(BlockingIOError):
                os.read(self._woken, 4096)

    def _mind_the_lease(self) -> None:
        now = clock.now()
        over = self._lease.expire()
        times = self._times()
        if self._stopping_since is None and (over or now >= times.term_at):
            if not over:
                # There is still a lease, but no longer the time to wait for a renewal.
                self._events.lease("uncertain", self._lease, "There is no time left to renew: stopping.")
            self._stopping_since = now
            self._kill_at = min(now + GRACE_SECONDS, times.kill_at)
            self._guard.times(StopTimes(math.inf, self._kill_at))
            send(self._child, signal.SIGTERM)
            # What is stopped cannot end.
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
        self._status = status
        return True

    def _pause_too(self) -> None:
        """Ctrl-Z stopped the child; the shell gets its prompt when we stop as well. Without a terminal it was somebody
        else, who will know why: we go on renewing."""
        if not self._terminal.is_ours:
            return
        self._terminal.take_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        # Continued, maybe much later: what comes first is the deadline.
        self._mind_the_lease()
        self._terminal.give(self._child)
        send(self._child, signal.SIGCONT)

    def _stop_leftovers(self) -> None:
        """What the command left running in its group must not work on without the lease."""
        if is_gone(self._child):
            return
        send(self._child, signal.SIGTERM)
        until = min(clock.now() + GRACE_SECONDS, self._times().kill_at)
        while clock.now() < until and not is_gone(self._child):
            select.select([], [], [], LOOK_SECONDS)
        send(self._child, signal.SIGKILL)

    def _release(self, *, quietly: bool = False) -> None:
        try:
            self._lease.release(retry_for=0 if quietly else None)
        except errors.OctoError as problem:
            if not quietly:
                sys.stderr.write(f"octo: {self._lease.name} could not be released: {problem} It will run out.\n")

    def _on_happening(self, happening: Happening, _tenure: Tenure, detail: str) -> None:
        """On the keeper's thread, or on ours."""
        self._events.lease(happening.value, self._lease, detail)
        if happening is Happening.RENEWED and self._stopping_since is None:
            self._guard.times(self._times())
        with suppress(OSError):
            os.write(self._wake, b"\0")

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number in FORWARDED and self._child:
            send(self._child, number)
