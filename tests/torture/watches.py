"""A watch that follows all events, and resumes after the last one whenever its connection breaks."""

import http.client
import sys
import threading
import time

from tests.locks.events.event_stream import EventStream
from tests.torture.clients import PREFIX
from tests.torture.history import Delivered

EVENT_KINDS = ("acquired", "released", "expired", "force_released")


class Watch(threading.Thread):
    def __init__(self, number: int, *, ports: list[int], token: str) -> None:
        super().__init__(daemon=True)
        self.delivered: list[Delivered] = []
        self.is_connected = threading.Event()
        self.stopped = threading.Event()
        self.number = number
        self._ports = ports
        self._stream = EventStream(ports[0], f"/watch?prefix={PREFIX}", token)

    def run(self) -> None:
        try:
            self._follow()
        finally:
            self._stream.close()

    def _follow(self) -> None:
        attempt = 0
        while not self.stopped.is_set():
            self._stream.port = self._ports[attempt % len(self._ports)]
            attempt += 1
            try:
                self._stream.connect()
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.2)
                continue
            if self._stream.status != 200:
                time.sleep(0.2)
                continue
            for event in self._stream.events():
                self.is_connected.set()
                if event.event == "reset":
                    self.delivered.append(
                        Delivered(watch=self.number, kind="reset", name="", fencing_token=0, at=time.time())
                    )
                elif event.event in EVENT_KINDS and event.id is not None:
                    self.delivered.append(
                        Delivered(
                            watch=self.number, kind=sys.intern(event.event), name=sys.intern(event.data["lock_name"]),
                            fencing_token=event.data["fencing_token"], at=time.time(),
                        )
                    )  # fmt: skip

    def stop(self) -> None:
        """It ends with its stream, when the servers stop: closing it here would wait for what comes next."""
        self.stopped.set()
