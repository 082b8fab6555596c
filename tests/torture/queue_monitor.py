"""Reads the queues all the time: when each request was first seen in one, and whether its server process sends
heartbeats.

A request that is seen has its place, so none that is sent from then on may get the lock before it. When the statement
that gave it its place was committed is not recorded anywhere.
"""

import threading
import time

import psycopg

from tests.torture.clients import PREFIX
from tests.torture.history import Place

READ_SECONDS = 0.025
# A waiter is passed over after 0.9 s without a heartbeat of its process.
STALL_SECONDS = 0.6
# Until then it may return to its place.
AFTER_SECONDS = 10.0

# Not waiters that were handed a lease, nor those whose time is up.
_WAITERS = f"""
SELECT waiter.name, waiter.owner, extract(epoch FROM waiter.enqueued_at)::float8,
       waiter.handed_lease_id IS NULL AND waiter.deadline_at > clock_timestamp(),
       coalesce(extract(epoch FROM clock_timestamp() - server.last_heartbeat_at), 0)::float8
FROM octo_waiter AS waiter
LEFT JOIN octo_server_process AS server ON server.id = waiter.server_id
WHERE starts_with(waiter.name, '{PREFIX}')
"""


class QueueMonitor(threading.Thread):
    """Reads through another connection than the servers; a reading that is late is a stall too."""

    def __init__(self, database_url: str) -> None:
        super().__init__(daemon=True)
        self.stalls: list[tuple[float, float]] = []
        self._places: dict[tuple[str, str, float], Place] = {}
        self._database_url = database_url
        self._stopping = threading.Event()
        self._read_at = time.time()

    @property
    def places(self) -> list[Place]:
        return list(self._places.values())

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                with psycopg.connect(self._database_url, autocommit=True, connect_timeout=5) as connection:
                    while not self._stopping.wait(READ_SECONDS):
                        self._note_heartbeat(self._read(connection))
            except psycopg.OperationalError:
                self._note_heartbeat(STALL_SECONDS)
                self._stopping.wait(READ_SECONDS)

    def _read(self, connection: psycopg.Connection) -> float:
        """Returns the age of the oldest heartbeat."""
        began = time.time()
        rows = connection.execute(_WAITERS).fetchall()
        now = time.time()
        for name, owner, place, is_waiting, _ in rows:
            if is_waiting:
                seen = self._places.get((name, owner, place))
                if seen is None:
                    self._places[name, owner, place] = Place(name=name, owner=owner, at=place, seen=now, last=began)
                else:
                    seen.last = began
        return max((age for *_, age in rows), default=0.0)

    def _note_heartbeat(self, age: float) -> None:
        """What was meanwhile is not known if the reading was late."""
        now = time.time()
        if age >= STALL_SECONDS or now - self._read_at >= STALL_SECONDS / 2:
            self.stalls.append((now - max(age, now - self._read_at), now + AFTER_SECONDS))
        self._read_at = now

    def stop(self) -> None:
        self._stopping.set()
        self.join(10)
