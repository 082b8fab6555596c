"""The child processes of `up`: each in its own process group, restarted if it dies, and stopped with the others within
five seconds."""

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
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
CHECK_SECONDS = 0.1
# A child is restarted at once, and later each time if it lived for less than STABLE_SECONDS.
FIRST_DELAY_SECONDS = 1.0
MAX_DELAY_SECONDS = 30.0
STABLE_SECONDS = 60.0


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
    # Starts it again, and has the supervisor adopt the new one.
    restart: Callable[[], object]
    signals: tuple[signal.Signals, ...] = (signal.SIGTERM,)
    is_database: bool = False

    @property
    def ending(self) -> str:
        return _ending(self.process)


def _ending(process: "subprocess.Popen[bytes]") -> str:
    code = process.returncode
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


@dataclass
class Backoff:
    """When a child that keeps dying is restarted."""

    restart_at: float = 0.0
    delay: float = 0.0

    def next_delay(self, now: float) -> float:
        """Called when the child has died."""
        if now - self.restart_at > STABLE_SECONDS:
            self.delay = 0.0
        else:
            self.delay = min(max(2 * self.delay, FIRST_DELAY_SECONDS), MAX_DELAY_SECONDS)
        self.restart_at = now + self.delay
        return self.delay


@dataclass(kw_only=True)
class Supervisor:
    """As a context it ends with every child gone, whatever happened inside.

    `lock` is the open lock file of the data directory. The reaper inherits it, so that after a crash the directory is
    locked until the reaper has cleaned up.
    """

    lock: int
    signals: SignalHandler
    stop_with_parent: bool = False
    report: Callable[[str], None] = print
    _children: list[Child] = field(default_factory=list)
    _backoffs: dict[str, Backoff] = field(default_factory=lambda: defaultdict(Backoff))
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

        def restart() -> None:
            self.start(name, command)

        self.adopt(lambda: Child(name=name, process=process(), restart=restart))

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
        """Raises StopRequested or ChildDied. While `up` is starting, the death of any child ends it."""
        self._check_stop()
        for child in self._children:
            if child.process.poll() is not None:
                raise ChildDied(f"{child.name} ended ({child.ending})")

    def _check_stop(self) -> None:
        self.signals.check()
        if self.stop_with_parent and os.getppid() != self._parent:
            raise StopRequested
        if self._reaper.poll() is not None:
            raise ChildDied(f"The reaper process ended ({_ending(self._reaper)})")

    def watch(self) -> None:
        """Restarts children that die. Returns never: StopRequested or ChildDied ends it."""
        due: list[Child] = []
        while True:
            self._check_stop()
            for child in [child for child in self._children if child.process.poll() is not None]:
                # Its own children may live on, and keep the port.
                reaper.send(child.process.pid, signal.SIGKILL)
                self.drop(child)
                delay = self._backoffs[child.name].next_delay(time.monotonic())
                when = f"in {delay:.0f} s" if delay else "now"
                self.report(f"{child.name} ended ({child.ending}). It is restarted {when}.")
                due.append(child)
            for child in due:
                if time.monotonic() >= self._backoffs[child.name].restart_at:
                    due = [other for other in due if other is not child]
                    child.restart()
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
