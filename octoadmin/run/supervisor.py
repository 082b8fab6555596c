"""The child processes of `up`: each in its own process group, watched, and stopped together within five seconds."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Self

from octoadmin.environment import PROJECT_DIR
from octoadmin.run import reaper

# Together these stay under five seconds.
CLIENT_GRACE_SECONDS = 2.0
DATABASE_GRACE_SECONDS = 1.5
LAST_GRACE_SECONDS = 0.4
CHECK_SECONDS = 0.2


class ChildDied(Exception):
    """The message says which child it was, and how it ended."""


class StopRequested(BaseException):
    """A signal requested a stop. Not an Exception, so that no step of the start-up catches it."""


class SignalHandler:
    """Raises StopRequested on SIGINT, SIGTERM and SIGHUP; inside `held` only at its end."""

    NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.received: list[int] = []
        self._holding = False
        for number in self.NUMBERS:
            signal.signal(number, self._receive)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self.received.append(number)
        if not self._holding:
            raise StopRequested

    def check(self) -> None:
        """An exception that a signal handler raises inside a finaliser is lost; this one is not."""
        if self.received:
            raise StopRequested

    @contextmanager
    def held(self) -> Iterator[None]:
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        self.check()

    def hold_until_exit(self) -> None:
        self._holding = True


@dataclass(frozen=True, kw_only=True)
class Child:
    """A process that leads a group. It gets the signals one after the other; the group gets SIGKILL last."""

    name: str
    process: "subprocess.Popen[bytes]"
    signals: tuple[signal.Signals, ...] = (signal.SIGTERM,)
    is_database: bool = False

    @property
    def ending(self) -> str:
        code = self.process.returncode
        return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


@dataclass(kw_only=True)
class Supervisor:
    """As a context it ends with every child gone, whatever happened inside.

    `lock` is the open lock file of the data directory. The reaper inherits it, so that after a crash the directory is
    locked until the reaper has cleaned up.
    """

    lock: int
    signals: SignalHandler
    stop_with_parent: bool = False
    _children: list[Child] = field(default_factory=list)
    _parent: int = field(default_factory=os.getppid)

    def __enter__(self) -> Self:
        script = Path(reaper.__file__)
        with self.signals.held():
            self._reaper = subprocess.Popen(
                [sys.executable, "-I", "-S", script],
                stdin=subprocess.PIPE, stdout=sys.stderr, start_new_session=True,
                pass_fds=[self.lock], bufsize=0,
            )  # fmt: skip
        return self

    def __exit__(self, *_exception: object) -> None:
        self.signals.hold_until_exit()
        self._stop([child for child in self._children if not child.is_database], CLIENT_GRACE_SECONDS)
        self._stop([child for child in self._children if child.is_database], DATABASE_GRACE_SECONDS)
        assert self._reaper.stdin is not None
        self._reaper.stdin.close()
        self._reaper.wait()

    def start(self, name: str, command: Sequence[str | Path]) -> None:
        """In its own session: Ctrl-C and the closing of the terminal do not reach it, only our signals do."""

        def process() -> "subprocess.Popen[bytes]":
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL, stdout=sys.stderr, cwd=PROJECT_DIR, start_new_session=True,
            )  # fmt: skip

        self.adopt(lambda: Child(name=name, process=process()))

    def adopt(self, start: Callable[[], Child]) -> Child:
        """Calls `start` with signals held, so that none can come between the start and its registration."""
        with self.signals.held():
            child = start()
            self._children.append(child)
            self._tell_reaper("watch", child.process.pid, int(child.signals[0]))
        return child

    def drop(self, child: Child) -> None:
        """For a child that ended as intended."""
        self._children.remove(child)
        self._tell_reaper("forget", child.process.pid)

    def check(self) -> None:
        """Raises StopRequested or ChildDied."""
        self.signals.check()
        if self.stop_with_parent and os.getppid() != self._parent:
            raise StopRequested
        for child in (*self._children, Child(name="The reaper process", process=self._reaper)):
            if child.process.poll() is not None:
                raise ChildDied(f"{child.name} ended ({child.ending})")

    def watch(self) -> None:
        """Stays until `check` raises."""
        while True:
            self.check()
            time.sleep(CHECK_SECONDS)

    def _stop(self, children: list[Child], grace: float) -> None:
        for child in children:
            child.process.send_signal(child.signals[0])
        self._wait(children, grace, unless=self._interrupted_twice)
        for child in children:
            for number in child.signals[1:]:
                child.process.send_signal(number)
                self._wait([child], LAST_GRACE_SECONDS)
            # Also if the leader has ended: its workers may live on after it was killed.
            reaper.send(child.process.pid, signal.SIGKILL)
        for child in children:
            child.process.wait()
            self.drop(child)

    def _interrupted_twice(self) -> bool:
        """Only Ctrl-C counts: make passes SIGTERM on, so one SIGTERM may arrive twice."""
        return self.signals.received.count(signal.SIGINT) > 1

    @staticmethod
    def _wait(children: list[Child], seconds: float, *, unless: Callable[[], bool] = lambda: False) -> None:
        deadline = time.monotonic() + seconds
        while any(child.process.poll() is None for child in children):
            if time.monotonic() > deadline or unless():
                return
            time.sleep(0.02)

    def _tell_reaper(self, *words: str | int) -> None:
        assert self._reaper.stdin is not None
        with suppress(BrokenPipeError):  # It was killed; `check` reports that.
            self._reaper.stdin.write(f"{' '.join(map(str, words))}\n".encode())
