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
                self._raise_in_thread()

    def leave(self) -> None:
        try:
            self._inside = False
            with self._guard:
                pass
            if self._by_signal:
                assert _NUMBER is not None
                signal.signal(_NUMBER, self._before)
            elif self._struck:
                # To take back what may still be on its way would leave CPython's flag for it set, and under a tracer
                # the interpreter then runs in circles. So it is sent once more, and caught here.
                self._raise_in_thread()
                while True:
                    pass
        except BlockCut:
            self._inside = False

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._inside and self._struck:
            self._inside = False
            raise BlockCut

    def _raise_in_thread(self) -> None:
        import ctypes

        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(BlockCut))
