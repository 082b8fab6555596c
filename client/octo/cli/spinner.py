"""What a terminal shows while a command waits: for whom, how many wait, and for how long already."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING

from octo import durations
from octo.answers import Held

if TYPE_CHECKING:
    from typing_extensions import Self

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_SECONDS = 0.1


class Spinner:
    """Only on a terminal; elsewhere it does nothing. A line of standard error, gone when the wait is over."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._held: Held | None = None
        self._since = time.monotonic()
        self._thread: threading.Thread | None = None
        self._done = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.stop()

    def show(self, held: Held) -> None:
        self._held = held
        if self._thread is None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._thread = threading.Thread(target=self._spin, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def text(self) -> str:
        from octo.cli.output import until, visible

        waited = durations.short(time.monotonic() - self._since)
        parts = [f"Waiting for {self._what}"]
        if self._held is not None:
            if self._held.owner:
                parts.append(f"held by {visible(self._held.owner)}")
            # When we are told, we are not in line yet; or we were, and this is how far we got.
            parts.append(f"position {self._held.queue_position or self._held.waiters + 1}")
            if self._held.expires_at:
                parts.append(until(self._held.expires_at))
        return f"{', '.join(parts)} ({waited})"

    def _spin(self) -> None:
        frame = 0
        while not self._done.wait(FRAME_SECONDS):
            width = shutil.get_terminal_size().columns - 3
            sys.stderr.write(f"\r\x1b[K{FRAMES[frame % len(FRAMES)]} {self.text()[:width]}")
            sys.stderr.flush()
            frame += 1
