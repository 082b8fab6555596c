"""Django's threads compute one at a time, so that the event loop seldom waits for the interpreter.

Only one thread of a process runs Python code at any moment, and those that want to are served in no order. With six
threads that compute, each step of the event loop waited for several of them, and a request takes many steps. Computing
at the same time gains the threads nothing: what they can do in parallel is to wait, and for that they give up their
turn.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

# A turn that lasts longer is passed on: its thread may be waiting for something that is not known here, such as a
# directory server, or computing outside of the interpreter, such as the hash of a password.
MAX_SECONDS = 0.05


class ComputeTurn:
    def __init__(self, *, max_seconds: float = MAX_SECONDS) -> None:
        self._max_seconds = max_seconds
        # Locked while it is a thread's turn.
        self._taken = threading.Lock()
        # Guards `_holder`, so that a thread never ends the turn of another.
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._thread = threading.local()

    def run(self, job: Callable[[], Result]) -> Result:
        """In a turn of this thread, which it gives up while it waits."""
        self._thread.takes_turns = True
        self._begin()
        try:
            return job()
        finally:
            self._end()
            self._thread.takes_turns = False

    def wait(self, job: Callable[[], Result]) -> Result:
        """Something that waits. On a thread that does not take turns, nothing else happens."""
        if not getattr(self._thread, "takes_turns", False):
            return job()
        self._end()
        try:
            return job()
        finally:
            self._begin()

    def _begin(self) -> None:
        self._taken.acquire(timeout=self._max_seconds)
        with self._lock:
            self._holder = threading.get_ident()

    def _end(self) -> None:
        with self._lock:
            # Otherwise it was passed on.
            if self._holder == threading.get_ident():
                self._holder = None
                # Not so if this turn began while the one before it was passed on and ended.
                if self._taken.locked():
                    self._taken.release()


# The one of this process.
compute_turn = ComputeTurn()
