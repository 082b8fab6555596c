"""Cuts a block of code short when the lease it relies on is over."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

# Nobody uses it, and by default it does nothing.
_NUMBER = getattr(signal, "SIGURG", None)


class BlockCut(BaseException):
    """Ends the block; its context turns it into LeaseLost or LeaseUncertain. Not an Exception, so that nothing in the
    block takes it for its own."""


class Interruption:
    """Raises in the thread that entered the block. The main thread is woken from whatever it waits for; another
    thread gets the exception with its next step of Python, as it cannot be woken."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._guard = threading.Lock()
        self._inside = True
        self._struck = False
        self._by_signal = _NUMBER is not None and threading.current_thread() is threading.main_thread()
        self._before: Any = None
        if self._by_signal:
            assert _NUMBER is not None
            self._before = signal.signal(_NUMBER, self._on_signal)

    def strike(self) -> None:
        """From the thread that has found out."""
        with self._guard:
            if not self._inside:
                return
            self._struck = True
            if self._by_signal:
                assert _NUMBER is not None
                signal.pthread_kill(self._thread, _NUMBER)
            else:
                self._raise_in_thread(BlockCut)

    def leave(self) -> None:
        self._inside = False
        with self._guard:
            pass
        if self._by_signal:
            assert _NUMBER is not None
            signal.signal(_NUMBER, self._before)
        elif self._struck:
            self._raise_in_thread(None)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._inside and self._struck:
            self._inside = False
            raise BlockCut

    def _raise_in_thread(self, kind: type[BlockCut] | None) -> None:
        import ctypes

        what = ctypes.py_object(kind) if kind is not None else None
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), what)
