"""Process groups, and the watchdog of `octo run`: a process that stops the work if `octo run` cannot.

`octo run` may be killed, or be stopped for a while, and its child would work on without a lease. The watchdog is sent
each new deadline over a pipe; when the pipe closes or the deadline comes, it stops the child's process group.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from octo import clock

GRACE_SECONDS = 5.0
MAX_MARGIN = 1.0
POLL_SECONDS = 0.05
# `octo run` itself acts a little earlier, and then there is nothing to do.
DELAY_SECONDS = 0.2
# Python ignores these, and a child would inherit that.
_TO_DEFAULT = [
    number
    for number in (getattr(signal, name, None) for name in ("SIGPIPE", "SIGXFSZ", "SIGTTOU", "SIGTTIN", "SIGTSTP"))
    if number is not None
]


class StopSchedule(NamedTuple):
    """On `octo.clock`: when to send SIGTERM, and when SIGKILL."""

    term_at: float
    kill_at: float


def stop_schedule(*, deadline: float, ttl: float) -> StopSchedule:
    """Five seconds between the two where the lease is long enough; a quarter of a short one. The margin before the
    deadline is for the kernel to carry it out."""
    kill_at = deadline - min(MAX_MARGIN, ttl / 20)
    return StopSchedule(kill_at - min(GRACE_SECONDS, ttl / 4), kill_at)


def start(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """The command as the leader of a new group, whose number is the leader's process id."""
    return os.posix_spawnp(
        command[0], list(command), dict(environment), setpgroup=0, setsigmask=(), setsigdef=_TO_DEFAULT
    )


def send(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        # macOS refuses a group that consists of zombies.
        return True
    return False


def stop(group: int, *, kill_at: float) -> None:
    send(group, signal.SIGTERM)
    while clock.now() < kill_at and not is_gone(group):
        select.select([], [], [], POLL_SECONDS)
    send(group, signal.SIGKILL)


class Watchdog:
    """The parent's end."""

    def __init__(self) -> None:
        """Forks: before there are threads, and before there is a child to watch."""
        reading, self._pipe = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                os.close(self._pipe)
                _detach(keep=reading)
                _watch(reading)
                code = 0
            finally:
                os._exit(code)
        os.close(reading)
        os.set_inheritable(self._pipe, False)

    def watch(self, group: int) -> None:
        self._send(f"watch {group}")

    def schedule(self, times: StopSchedule) -> None:
        self._send(f"times {times.term_at} {times.kill_at}")

    def finish(self) -> None:
        """There is nothing left to watch."""
        self._send("finish")
        os.close(self._pipe)
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _send(self, line: str) -> None:
        # Shorter than a pipe's atomic write, so that two threads do not mix.
        with suppress(BrokenPipeError):
            os.write(self._pipe, f"{line}\n".encode())


def _detach(*, keep: int) -> None:
    """From the terminal, and from pipes that another process reads to their end."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for file in (0, 1, 2):
        os.dup2(null, file)
    os.closerange(3, keep)
    os.closerange(keep + 1, 4096)


def _watch(pipe: int) -> None:
    group: int | None = None
    times: StopSchedule | None = None
    unread = b""
    term_sent = False
    while True:
        now = clock.now()
        if group is not None and times is not None:
            if now >= times.kill_at:
                send(group, signal.SIGKILL)
            elif now >= times.term_at + DELAY_SECONDS and not term_sent:
                term_sent = True
                send(group, signal.SIGTERM)
        # In slices, as select's clock may stop while the machine sleeps and ours does not.
        readable, _, _ = select.select([pipe], [], [], _timeout(times, now, term_sent=term_sent))
        if not readable:
            continue
        chunk = os.read(pipe, 4096)
        if not chunk:
            # `octo run` is gone: there will be no more renewals.
            if group is not None:
                kill_at = clock.now() + GRACE_SECONDS
                stop(group, kill_at=min(kill_at, times.kill_at) if times else kill_at)
            return
        *lines, unread = (unread + chunk).split(b"\n")
        for line in lines:
            word, *values = line.decode().split()
            if word == "finish":
                return
            if word == "watch":
                group = int(values[0])
            elif word == "times":
                times, term_sent = StopSchedule(float(values[0]), float(values[1])), False


def _timeout(times: StopSchedule | None, now: float, *, term_sent: bool) -> float:
    if times is None:
        return 1.0
    next_at = times.kill_at if term_sent else min(times.term_at + DELAY_SECONDS, times.kill_at)
    return min(1.0, max(POLL_SECONDS, next_at - now))
