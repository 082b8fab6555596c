"""Clients that take, renew, release and wait for locks all the time, and check every answer.

A request without an answer, or with a 503, has an unknown outcome. An acquire is sent again with the same
Idempotency-Key until it is answered, so what it has taken becomes known.
"""

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from tests.locks.events.event_stream import EventStream
from tests.servers import Api, Response

# Longer than the drill, so that no lease ends by itself.
TTL = {"ttl_seconds": 7200}
OWN_WORKERS = 6
SHARED_WORKERS = 6
SHARED_NAMES = 4
PAUSE_SECONDS = 0.02
WAIT_SECONDS = 20


@dataclass
class Load:
    ports: list[int]
    token: str
    # Of all names.
    prefix: str = ""
    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    # When each acquire and renewal was acknowledged.
    successes: list[float] = field(default_factory=list)
    # Acknowledged and neither released nor asked to be: name to (lease id, fencing token).
    held: dict[str, tuple[str, int]] = field(default_factory=dict)
    _fencing: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        work: list[Callable[[], None]] = [lambda n=n: self._own_names(n) for n in range(OWN_WORKERS)]  # type: ignore[misc]
        work += [lambda n=n: self._shared_names(n) for n in range(SHARED_WORKERS)]  # type: ignore[misc]
        work += [lambda n=n: self._take_turns(n) for n in range(3)]  # type: ignore[misc]
        work += [self._watch]
        self._threads = [threading.Thread(target=self._guarded, args=(each,), daemon=True) for each in work]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._violation(f"a client failed: {error!r}")

    def _violation(self, text: str) -> None:
        with self._lock:
            self.violations.append(text)

    def _call(self, api: Api, method: str, path: str, body: Any = None, **headers: str) -> Response | None:
        """None if the outcome is unknown."""
        try:
            response = api.call(method, path, body, **headers)
        except (OSError, http.client.HTTPException):
            self.counts["no answer"] += 1
            return None
        self.counts[f"{path.rpartition('/')[2]} {response.status}"] += 1
        if response.status == 503:
            return None
        if response.status >= 500:
            self._violation(f"{path}: {response.status} {response.content!r}")
            return None
        return response

    def _acquire(self, api: Api, name: str, **options: Any) -> dict[str, Any] | None:
        """The lease; None if another has it. Until the outcome is known."""
        key = {"Idempotency-Key": uuid4().hex}
        before = self._fencing.get(name, 0)
        while not self._stop.is_set():
            response = self._call(api, "POST", f"/locks/{name}/acquire", TTL | options, **key)
            if response is None:
                time.sleep(0.1)
                continue
            if response.status != 200:
                self._violation(f"acquire {name}: {response.status} {response.content!r}")
                return None
            answer = response.json()
            if answer["status"] != "acquired":
                return None
            with self._lock:
                self.successes.append(time.monotonic())
                if name in self.held:
                    self.violations.append(f"{name} was granted twice: {self.held[name][1]}, {answer['fencing_token']}")
                if answer["fencing_token"] <= before:
                    self.violations.append(f"the fencing token of {name} fell: {before}, {answer['fencing_token']}")
                self._fencing[name] = max(self._fencing.get(name, 0), answer["fencing_token"])
                self.held[name] = (answer["lease_id"], answer["fencing_token"])
            return answer
        return None

    def _renew(self, api: Api, name: str) -> None:
        lease_id, fencing_token = self.held[name]
        response = self._call(api, "POST", f"/locks/{name}/renew", {"lease_id": lease_id})
        if response is not None and response.status != 200:
            self._violation(f"{name}, {fencing_token}, which was acknowledged: {response.status} {response.content!r}")
        elif response is not None:
            with self._lock:
                self.successes.append(time.monotonic())

    def _release(self, api: Api, name: str) -> None:
        """Until it is known to be released. From the first attempt on the name may be another's."""
        lease_id, _fencing_token = self.held.pop(name)
        is_retry = False
        while not self._stop.is_set():
            response = self._call(api, "POST", f"/locks/{name}/release", {"lease_id": lease_id})
            if response is not None:
                # Not 200 on a retry: the earlier attempt has released it, and another may have taken it.
                if response.status != 200 and not is_retry:
                    self._violation(f"release of {name}, an acknowledged lease: {response.status} {response.content!r}")
                return
            is_retry = True
            time.sleep(0.1)

    def _own_names(self, number: int) -> None:
        """Keeps ten leases, renews them, and replaces the oldest."""
        api = Api(self.ports[number % len(self.ports)], self.token)
        names: list[str] = []
        turn = 0
        while not self._stop.wait(PAUSE_SECONDS):
            turn += 1
            name = f"{self.prefix}own/{number}/{turn}"
            if self._acquire(api, name) is not None:
                names.append(name)
            for kept in names[-3:]:
                if kept in self.held:
                    self._renew(api, kept)
            if len(names) > 10:
                self._release(api, names.pop(0))

    def _shared_names(self, number: int) -> None:
        """Several clients compete for few names."""
        api = Api(self.ports[number % len(self.ports)], self.token)
        turn = number
        while not self._stop.wait(PAUSE_SECONDS):
            turn += 1
            name = f"{self.prefix}shared/{turn % SHARED_NAMES}"
            if self._acquire(api, name) is not None:
                self._renew(api, name)
                self._release(api, name)

    def _take_turns(self, number: int) -> None:
        """Clients that wait for one name and hand it on."""
        api = Api(self.ports[number % len(self.ports)], self.token)
        while not self._stop.wait(PAUSE_SECONDS):
            if self._acquire(api, f"{self.prefix}turn", wait_seconds=WAIT_SECONDS) is not None:
                self.counts["turns"] += 1
                self._release(api, f"{self.prefix}turn")

    def _watch(self) -> None:
        """Reconnects as a browser would."""
        stream = EventStream(self.ports[0], f"/watch?prefix={self.prefix}shared/", self.token)
        while not self._stop.wait(0.5):
            try:
                stream.connect()
                if stream.status != 200:
                    continue
                for event in stream.events():
                    self.counts[f"watched {event.event}"] += 1
                    if self._stop.is_set():
                        break
            except (OSError, http.client.HTTPException, ValueError):
                self.counts["watch failed"] += 1
        stream.close()

    def check_held(self) -> None:
        """At the end, every acknowledged lease is there, with its fencing token."""
        api = Api(self.ports[0], self.token)
        for name, (_lease_id, fencing_token) in self.held.items():
            found = api.call("GET", f"/locks/{name}").json()
            if (found["status"], found["fencing_token"]) != ("held", fencing_token):
                self.violations.append(f"{name}, {fencing_token}, was lost: {found}")
        api.close()
