"""The default Celery broker: a queue of files in the data directory, one message a file.

Kombu's own file transport lets a reader take a message that is still being written, which ends the worker, and moves
messages to the system's temporary directory. Here a message appears whole and stays in its folder.
"""

import logging
import time
import uuid
from json import JSONDecodeError
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.transport import filesystem
from kombu.utils.json import dumps, loads

log = logging.getLogger(__name__)


class Channel(filesystem.Channel):
    def _put(self, queue: str, payload: Any, **_kwargs: Any) -> None:  # type: ignore[override]
        # The time first: readers take the files in the order of their names.
        file = Path(self.data_folder_out) / f"{time.time_ns()}_{uuid.uuid4()}.{queue}.msg"
        draft = file.with_suffix(".draft")
        draft.write_text(dumps(payload))  # type: ignore[no-untyped-call]
        draft.rename(file)

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        folder = Path(self.data_folder_in)
        for file in sorted(file for file in folder.iterdir() if file.name.endswith(f".{queue}.msg")):
            taken = file.with_suffix(".taken")
            try:
                file.rename(taken)
            except FileNotFoundError:
                continue  # Another worker has taken it.
            text = taken.read_text()
            taken.unlink()
            try:
                return loads(text)  # type: ignore[no-untyped-call]
            except JSONDecodeError:
                log.warning("A queued task is damaged, perhaps by a power failure, and is skipped: %s", file.name)
        raise Empty


class Transport(filesystem.Transport):
    Channel = Channel

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:  # type: ignore[override]
        """Returns after a moment: a worker notices a stop only between two calls."""
        super().drain_events(connection, timeout=min(timeout or 1, 0.25))  # type: ignore[no-untyped-call]
