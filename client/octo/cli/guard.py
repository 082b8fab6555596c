"""A second pair of eyes for `octo run`: a process that stops the work if `octo run` cannot.

`octo run` may be killed, or be stopped for a while, and its child would work on without a lease. The guard is told
of each new deadline over a pipe; when the pipe closes or the time comes, it stops the child's process group.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress

from octo import clock
from octo.cli.process_groups import is_gone, send
from octo.cli.stopping import StopTimes

LOOK_EVERY_SECONDS = 0.05
# `octo run` itself is a little earlier, and then we have nothing to ask.
LATER_SECONDS = 0.2


class Guard:
    """The parent's end."""

    def __init__(self, pid: int, pipe: int) -> None:
        self._pid = pid
        self._pipe = pipe

    @classmethod
    def start(cls) -> Guard:
        """Forks. Before there are threads, and before there is a child to look after."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(writing)
                _detach(keep=reading)
                _watch(reading)
                code = 0
            finally:
                os._exit(code)
        os.close(reading)
        os.set_inheritable(writing, False)
        return cls(pid, writing)

    def watch(self, group: int) -> None:
        self._tell(f"watch {group}")

    def times(self, times: StopTimes) -> None:
        self._tell(f"times {times.term_at} {times.kill_at}")

    def finish(self) -> None:
        """There is nothing left to guard."""
        self._tell("finish")
        os.close(self._pipe)
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _tell(self, line: str) -> None:
        # Shorter than a pipe's atomic write, so that two threads do not mix.
        with suppress(BrokenPipeError):
            os.write(self._pipe, f"{line}\n".encode())


def _detach(*, keep: int) -> None:
    """Neither the terminal nor whoever waits for our output has anything to do with the guard."""
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
    times: StopTimes | None = None
    unread = b""
    asked = False
    while True:
        now = clock.now()
        if group is not None and times is not None:
            if now >= times.kill_at:
                send(group, signal.SIGKILL)
            elif now >= times.term_at + LATER_SECONDS and not asked:
                asked = True
                send(group, signal.SIGTERM)
        # In slices, as select's clock may stand still while the machine sleeps and ours does not.
        readable, _, _ = select.select([pipe], [], [], _seconds_until_next(times, now, asked=asked))
        if not readable:
            continue
        chunk = os.read(pipe, 4096)
        if not chunk:
            _stop(group, times)
            return
        *lines, unread = (unread + chunk).split(b"\n")
        for line in lines:
            word, *values = line.decode().split()
            if word == "finish":
                return
            if word == "watch":
                group = int(values[0])
            elif word == "times":
                times, asked = StopTimes(float(values[0]), float(values[1])), False


def _seconds_until_next(times: StopTimes | None, now: float, *, asked: bool) -> float:
    if times is None:
        return 1.0
    next_at = times.kill_at if asked else min(times.term_at + LATER_SECONDS, times.kill_at)
    return min(1.0, max(LOOK_EVERY_SECONDS, next_at - now))


def _stop(group: int | None, times: StopTimes | None) -> None:
    """`octo run` is gone: there will be no more renewals."""
    if group is None:
        return
    from octo.cli.stopping import GRACE_SECONDS

    kill_at = clock.now() + GRACE_SECONDS
    if times is not None:
        kill_at = min(kill_at, times.kill_at)
    send(group, signal.SIGTERM)
    while clock.now() < kill_at and not is_gone(group):
        select.select([], [], [], LOOK_EVERY_SECONDS)
    send(group, signal.SIGKILL)
