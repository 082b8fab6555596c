"""Interrupts a block of code when the lease that it relies on is over."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# Unused by programs, and ignored by default.
_SIGNAL = getattr(signal, "SIGURG", None)


class LeaseInterrupted(BaseException):
    """Ends a block; its context turns it into LeaseLost or LeaseUncertain. Not an Exception, so that the block does not
    catch it by accident."""


class Interrupter:
    """Raises in the thread that entered the block. The main thread is woken from whatever it waits for, by a signal;
    another thread gets the exception at its next step of Python. Blocks can be nested: each has an exception class of
    its own, which the blocks inside it let pass."""

    _active: list[Interrupter] = []
    _deferred = 0
    _previous: Any = None

    def __init__(self) -> None:
        self.exception: type[LeaseInterrupted] = type("LeaseInterrupted", (LeaseInterrupted,), {})
        self._thread = threading.get_ident()
        self._guard = threading.Lock()
        self._inside = True
        self._triggered = False
        self._by_signal = _SIGNAL is not None and threading.current_thread() is threading.main_thread()
        if self._by_signal:
            if not Interrupter._active:
                Interrupter._previous = signal.signal(_SIGNAL, Interrupter._on_signal)  # type: ignore[arg-type]
            Interrupter._active.append(self)

    def trigger(self) -> None:
        """From the thread that noticed the end of the lease."""
        with self._guard:
            if not self._inside:
                return
            self._triggered = True
            if self._by_signal:
                signal.pthread_kill(self._thread, _SIGNAL)  # type: ignore[arg-type]
            else:
                self._raise_in_thread()

    def leave(self, raised: BaseException | None) -> bool:
        """At the end of the block: whether this interrupter ended it."""
        try:
            self._inside = False
            with self._guard:
                pass
            if self._by_signal:
                Interrupter._active.remove(self)
                if not Interrupter._active:
                    signal.signal(_SIGNAL, Interrupter._previous)  # type: ignore[arg-type]
            elif self._triggered and not isinstance(raised, self.exception):
                # The exception may still be pending, and withdrawing it would leave CPython's flag for it set. So it is
                # sent once more, and caught here.
                self._raise_in_thread()
                while True:
                    pass
        except self.exception:
            pass
        return isinstance(raised, self.exception)

    @staticmethod
    @contextmanager
    def deferred() -> Iterator[None]:
        """Enclosing blocks are interrupted after this, so that what ends a block is not cut short."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        Interrupter._deferred += 1
        try:
            yield
        finally:
            Interrupter._deferred -= 1
        Interrupter._on_signal(0, None)

    @staticmethod
    def _on_signal(_number: int, _frame: FrameType | None) -> None:
        if Interrupter._deferred:
            return
        for one in Interrupter._active:
            if one._inside and one._triggered:
                one._inside = False
                raise one.exception

    def _raise_in_thread(self) -> None:
        import ctypes

        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(self.exception))


class AsyncInterrupter:
    """Cancels the task that entered the block."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._triggered = False

    def trigger(self) -> None:
        if self._task is not None:
            self._triggered = True
            self._task.cancel()

    def leave(self, raised: BaseException | None) -> bool:
        task, self._task = self._task, None
        ended = self._triggered and isinstance(raised, asyncio.CancelledError)
        if self._triggered and task is not None and hasattr(task, "uncancel"):
            # Since Python 3.11 a task counts the requests to end it: only when no other is left is it ours to catch.
            return task.uncancel() == 0 and ended
        return ended

    @staticmethod
    @contextmanager
    def deferred() -> Iterator[None]:
        yield
