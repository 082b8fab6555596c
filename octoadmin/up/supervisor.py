"""The processes of `up`: each in a group of its own, watched, and stopped together within five seconds."""

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
from octoadmin.up import guard

# Together with the last resort of each these stay under five seconds.
CLIENT_PATIENCE_SECONDS = 2.0
DATABASE_PATIENCE_SECONDS = 1.5
LAST_PATIENCE_SECONDS = 0.4
LOOK_EVERY_SECONDS = 0.2


class ChildDied(Exception):
    """The message says which child it was, and how it ended."""


class StopRequested(BaseException):
    """A signal asked us to stop. Not an Exception, so that no step of the start-up takes it for its own."""


class Interrupts:
    """SIGINT, SIGTERM and SIGHUP, raised as StopRequested wherever they arrive unless `held` is in force."""

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
        """An exception that a signal raises inside a finaliser is lost; this one is not."""
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

    def hold_for_good(self) -> None:
        self._holding = True


@dataclass(frozen=True, kw_only=True)
class Child:
    """A process that leads a group. The signals ask ever more urgently; SIGKILL to the group comes last."""

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

    `lock` is the open lock file of the data directory. The guard gets it too, so that after a crash the
    directory counts as taken until the guard has cleaned up.
    """

    lock: int
    interrupts: Interrupts
    stop_with_parent: bool = False
    _children: list[Child] = field(default_factory=list)
    _parent: int = field(default_factory=os.getppid)

    def __enter__(self) -> Self:
        script = Path(guard.__file__)
        with self.interrupts.held():
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", script],
                stdin=subprocess.PIPE, stdout=sys.stderr, start_new_session=True,
                pass_fds=[self.lock], bufsize=0,
            )  # fmt: skip
        return self

    def __exit__(self, *_exception: object) -> None:
        self.interrupts.hold_for_good()
        self._stop([child for child in self._children if not child.is_database], CLIENT_PATIENCE_SECONDS)
        self._stop([child for child in self._children if child.is_database], DATABASE_PATIENCE_SECONDS)
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()

    def start(self, name: str, command: Sequence[str | Path]) -> None:
        """In a session of its own: neither Ctrl-C nor the closing of the terminal reaches it, only we do."""

        def process() -> "subprocess.Popen[bytes]":
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL, stdout=sys.stderr, cwd=PROJECT_DIR, start_new_session=True,
            )  # fmt: skip

        self.adopt(lambda: Child(name=name, process=process()))

    def adopt(self, start: Callable[[], Child]) -> Child:
        """Calls `start` with signals held, so that none can come between a start and our knowing of it."""
        with self.interrupts.held():
            child = start()
            self._children.append(child)
            self._tell_guard("watch", child.process.pid, int(child.signals[0]))
        return child

    def drop(self, child: Child) -> None:
        """For a child that ended and may have."""
        self._children.remove(child)
        self._tell_guard("forget", child.process.pid)

    def check(self) -> None:
        """Raises if it is time to stop."""
        self.interrupts.check()
        if self.stop_with_parent and os.getppid() != self._parent:
            raise StopRequested
        for child in (*self._children, Child(name="The guard process", process=self._guard)):
            if child.process.poll() is not None:
                raise ChildDied(f"{child.name} ended ({child.ending})")

    def watch(self) -> None:
        """Stays until `check` raises."""
        while True:
            self.check()
            time.sleep(LOOK_EVERY_SECONDS)

    def _stop(self, children: list[Child], patience: float) -> None:
        for child in children:
            child.process.send_signal(child.signals[0])
        self._wait(children, patience, unless=self._hurried)
        for child in children:
            for number in child.signals[1:]:
                child.process.send_signal(number)
                self._wait([child], LAST_PATIENCE_SECONDS)
            # Also where the leader has ended: it may have been killed and have left its workers.
            guard.send(child.process.pid, signal.SIGKILL)
        for child in children:
            child.process.wait()
            self.drop(child)

    def _hurried(self) -> bool:
        """Only Ctrl-C counts: make hands SIGTERM on to us, so one SIGTERM may arrive twice."""
        return self.interrupts.received.count(signal.SIGINT) > 1

    @staticmethod
    def _wait(children: list[Child], seconds: float, *, unless: Callable[[], bool] = lambda: False) -> None:
        deadline = time.monotonic() + seconds
        while any(child.process.poll() is None for child in children):
            if time.monotonic() > deadline or unless():
                return
            time.sleep(0.02)

    def _tell_guard(self, *words: str | int) -> None:
        assert self._guard.stdin is not None
        with suppress(BrokenPipeError):  # It was killed; `check` finds out.
            self._guard.stdin.write(f"{' '.join(map(str, words))}\n".encode())
