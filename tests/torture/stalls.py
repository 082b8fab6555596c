"""Notices when a server process sends no heartbeats: on a machine that is too busy, without any fault."""

import threading
import time

import psycopg

# A waiter is passed over after 0.9 s without a heartbeat of its process.
STALL_SECONDS = 0.6
CHECK_SECONDS = 0.1
# Until then it may return to its place.
AFTER_SECONDS = 10.0

_AGE = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - last_heartbeat_at)), 0)::float8
FROM octo_server_process
WHERE id IN (SELECT server_id FROM octo_waiter)
"""


class StallMonitor(threading.Thread):
    def __init__(self, database_url: str) -> None:
        super().__init__(daemon=True)
        self.stalls: list[tuple[float, float]] = []
        self._database_url = database_url
        self._stopping = threading.Event()
        self._checked_at = time.time()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                with psycopg.connect(self._database_url, autocommit=True, connect_timeout=5) as connection:
                    while not self._stopping.wait(CHECK_SECONDS):
                        row = connection.execute(_AGE).fetchone()
                        assert row is not None
                        self._note(row[0])
            except psycopg.OperationalError:
                self._note(STALL_SECONDS)
                self._stopping.wait(CHECK_SECONDS)

    def _note(self, age: float) -> None:
        """A check that came late is a stall too: it cannot know what was meanwhile."""
        now = time.time()
        if age >= STALL_SECONDS or now - self._checked_at >= STALL_SECONDS / 2:
            self.stalls.append((now - max(age, now - self._checked_at), now + AFTER_SECONDS))
        self._checked_at = now

    def stop(self) -> list[tuple[float, float]]:
        self._stopping.set()
        self.join(10)
        return self.stalls
