"""What requests leave behind: when a token was last used, which spaces to count, and the tallies.

Noted in memory by the request, written once a second by a thread of its own, so that no request waits for it. What
is lost when the process dies is at most a second of it.
"""

import math
import threading
import time
from dataclasses import dataclass, field

import structlog
from django.db import DatabaseError, connection

from locks.api.usage_counters import tallies
from locks.engine.execution import Unavailable, run
from locks.engine.operations import count_live
from locks.events.history.rollup import add_tallies

FLUSH_SECONDS = 1.0
# A token's last use is written at most this often.
LAST_USE_SECONDS = 60.0
MAX_KNOWN_TOKENS = 100_000

_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Use:
    digest: bytes
    address: str | None
    agent: str


@dataclass
class Usage:
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _spaces: set[int] = field(default_factory=set)
    _uses: dict[bytes, Use] = field(default_factory=dict)
    _written: dict[bytes, float] = field(default_factory=dict)
    _thread: threading.Thread | None = None

    def note(self, *, digest: bytes, space_id: int, address: str | None, agent: str) -> None:
        self._spaces.add(space_id)
        if time.monotonic() - self._written.get(digest, -math.inf) >= LAST_USE_SECONDS:
            self._uses[digest] = Use(digest, address, agent)

    def flush(self) -> None:
        """Writes what was noted. Safe to call from any thread."""
        with self._lock:
            spaces, self._spaces = self._spaces, set()
            uses, self._uses = self._uses, {}
            if len(self._written) > MAX_KNOWN_TOKENS:
                self._written.clear()
            now = time.monotonic()
            for digest in uses:
                self._written[digest] = now
        if spaces:
            run(count_live(sorted(spaces)))
        if counted := tallies.take():
            run(add_tallies(counted))
        for use in uses.values():
            self._write(use)

    @staticmethod
    def _write(use: Use) -> None:
        # Another process may be writing the same; whoever comes second has nothing to add.
        with connection.cursor() as cursor:
            cursor.execute(
                """
                UPDATE octo_token SET
                    last_used_at = clock_timestamp(), last_used_address = %s, last_used_agent = %s
                WHERE id IN (
                    SELECT id FROM octo_token
                    WHERE digest = %s
                      AND (last_used_at IS NULL OR last_used_at < clock_timestamp() - %s * interval '1 second')
                    FOR NO KEY UPDATE SKIP LOCKED
                )
                """,
                [use.address, use.agent[:200], use.digest, LAST_USE_SECONDS],
            )

    def forget(self) -> None:
        """Drops what was noted, and that anything was ever written."""
        with self._lock:
            self._spaces, self._uses, self._written = set(), {}, {}
            tallies.take()

    def start(self) -> None:
        """Flushes every second until the process ends."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="usage", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            time.sleep(FLUSH_SECONDS)
            try:
                self.flush()
            except (Unavailable, DatabaseError) as error:
                _log.warning("usage could not be written", error=str(error))
                connection.close()


usage = Usage()
