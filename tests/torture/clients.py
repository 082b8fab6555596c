"""Clients that use locks in every way and record each invocation and answer. Each is a thread of a process."""

import http.client
import json
import random
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from tests.locks.events.event_stream import EventStream
from tests.servers import Api, Response
from tests.torture.history import Delivered, Op, Outcome, Verb

PREFIX = "torture/"
HOT_NAMES = [f"{PREFIX}hot-{number}" for number in range(3)]
NAMES = [f"{PREFIX}name-{number}" for number in range(40)]
EVENT_KINDS = ("acquired", "released", "expired", "force_released")


def run_clients(
    path: Path, *, ports: list[int], token: str, seed: int, threads: int, until: float, pause: float
) -> None:
    """The main function of a client process."""
    clients = [
        Client(ports=ports, token=token, seed=seed * 1000 + number, until=until, pause=pause)
        for number in range(threads)
    ]
    workers = [threading.Thread(target=client.run) for client in clients]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for client in clients:
            file.writelines(encoder.encode(op) + b"\n" for op in client.ops)


class Client:
    def __init__(self, *, ports: list[int], token: str, seed: int, until: float, pause: float) -> None:
        self.ops: list[Op] = []
        self._apis = [Api(port, token) for port in ports]
        self._random = random.Random(seed)
        self._until = until
        self._pause = pause
        self._keys = (f"{seed}-{number}" for number in range(10**9))

    def run(self) -> None:
        ways = [self._plain, self._wait, self._in_session, self._all, self._claim, self._look, self._force, self._late]
        weights = [40, 22, 6, 6, 6, 18, 1, 1]
        while time.time() < self._until:
            (way,) = self._random.choices(ways, weights)
            way()
            if self._pause:
                time.sleep(self._random.random() * 2 * self._pause)
        for api in self._apis:
            api.close()

    # The ways in which locks are used.

    def _plain(self) -> None:
        op = self._acquire(self._name(), ttl_seconds=self._random.randint(5, 30))
        self._use(op)

    def _wait(self) -> None:
        name = self._random.choice(HOT_NAMES)
        self._use(self._acquire(name, ttl_seconds=10, wait_seconds=self._random.randint(1, 8)))

    def _in_session(self) -> None:
        opened, answer = self._call("open_session", "", "POST", "/sessions", {"ttl_seconds": 10})
        session = answer.get("session_id")
        if session is None:
            return
        opened.session, opened.outcome, opened.expires_at = session, "opened", _time(answer["expires_at"])
        op = self._acquire(self._name(), ttl_seconds=30, session_id=session)
        if self._random.random() < 0.5:
            kept, answer = self._call("keepalive", "", "POST", f"/sessions/{session}/keepalive", session=session)
            if "expires_at" in answer:
                kept.outcome, kept.expires_at = "kept_alive", _time(answer["expires_at"])
        self._use(op, release=self._random.random() < 0.5)
        self._call("end_session", "", "DELETE", f"/sessions/{session}", session=session)

    def _all(self) -> None:
        names = self._random.sample(NAMES, 3)
        body = {"names": names, "ttl_seconds": 10, "wait_seconds": self._random.choice((0, 2))}
        first, answer = self._call("acquire", names[0], "POST", "/locks/acquire-all", body)
        ops = [first, *(msgspec.structs.replace(first, name=name) for name in names[1:])]
        self.ops += ops[1:]
        leases = {lease["name"]: lease for lease in answer.get("leases", ())}
        for op in ops:
            if op.name in leases:
                _granted(op, leases[op.name])
        for op in ops:
            self._use(op, renew=False)

    def _claim(self) -> None:
        names = self._random.sample(NAMES, 8)
        op, answer = self._call("acquire", names[0], "POST", "/locks/claim-next", {"names": names, "ttl_seconds": 10})
        if op.outcome == "unknown":
            self.ops += [msgspec.structs.replace(op, name=name) for name in names[1:]]
        if answer.get("status") == "acquired":
            op.name = answer["name"]
            _granted(op, answer)
        self._use(op)

    def _look(self) -> None:
        name = self._name()
        op, answer = self._call("inspect", name, "GET", f"/locks/{name}")
        if answer.get("status") == "held":
            op.outcome, op.fencing_token = "held", answer["fencing_token"]
        elif answer.get("status") == "free":
            op.outcome = "free"

    def _force(self) -> None:
        name = self._name()
        op, answer = self._call("force", name, "POST", f"/locks/{name}/force-release", {"reason": "torture"})
        if answer.get("status") == "released":
            op.outcome, op.fencing_token = "released", answer["previous"]["fencing_token"]

    def _late(self) -> None:
        """A holder that is stopped past the end of its lease, and then goes on."""
        op = self._acquire(self._name(), ttl_seconds=1)
        if op.outcome == "acquired":
            time.sleep(1.2)
            self._renew(op)
            self._release(op)

    # What they consist of.

    def _name(self) -> str:
        return self._random.choice(HOT_NAMES if self._random.random() < 0.3 else NAMES)

    def _acquire(self, name: str, **body: Any) -> Op:
        """Half of them with a key, and again with the same key if the answer was lost."""
        headers = {"Idempotency-Key": next(self._keys)} if self._random.random() < 0.5 else {}
        session = body.get("session_id")
        asked = time.time()
        for _attempt in range(4):
            op, answer = self._call("acquire", name, "POST", f"/locks/{name}/acquire", body, headers)
            op.invoked, op.waits = asked, "wait_seconds" in body
            if op.outcome != "unknown" or not headers:
                break
            time.sleep(0.2)
        if answer.get("status") == "acquired":
            _granted(op, answer)
            op.session = session
        elif answer.get("status") == "held" and "fencing_token" in answer:
            # What was seen last: of a request that waited, and may be old.
            op.outcome, op.fencing_token = ("none" if op.waits else "held"), answer["fencing_token"]
        return op

    def _use(self, op: Op, *, renew: bool = True, release: bool = True) -> None:
        if op.outcome != "acquired":
            return
        time.sleep(self._random.random() * 0.02)
        if renew and self._random.random() < 0.4:
            self._renew(op)
        if release:
            self._release(op)
            if self._random.random() < 0.1:
                self._release(op)

    def _renew(self, held: Op) -> None:
        op, answer = self._call("renew", held.name, "POST", f"/locks/{held.name}/renew", {"lease_id": held.lease_id})
        op.lease_id = held.lease_id
        if "expires_at" in answer:
            op.outcome, op.expires_at = "renewed", _time(answer["expires_at"])

    def _release(self, held: Op) -> None:
        body = {"lease_id": held.lease_id}
        op, answer = self._call("release", held.name, "POST", f"/locks/{held.name}/release", body)
        op.lease_id = held.lease_id
        if answer == {"status": 200}:
            op.outcome = "released"

    def _call(
        self, verb: Verb, name: str, method: str, path: str, body: Any = None,
        headers: dict[str, str] | None = None, *, session: str | None = None,
    ) -> tuple[Op, dict[str, Any]]:  # fmt: skip
        api = self._random.choice(self._apis)
        invoked = time.time()
        outcome: Outcome = "unknown"
        request_id, answer = None, {}
        try:
            response = api.call(method, path, body, **(headers or {}))
            outcome, answer = _read(response)
            request_id = response.headers["X-Request-Id"]
        except (OSError, http.client.HTTPException, ValueError):
            # Also a refused connection: it is not known how far the request came.
            time.sleep(0.05)
        op = Op(
            verb=verb, name=name, invoked=invoked, returned=time.time(), outcome=outcome, request_id=request_id,
            session=session,
        )  # fmt: skip
        self.ops.append(op)
        return op, answer


def _read(response: Response) -> tuple[Outcome, dict[str, Any]]:
    content = json.loads(response.content) if response.content else None
    if response.status >= 500:
        return "unknown", {}
    if isinstance(content, dict) and content.get("code") in ("lease_not_current", "session_expired"):
        return "refused", {}
    if response.status >= 400:
        return "none", {}
    return "none", content if isinstance(content, dict) else {"status": response.status}


def _granted(op: Op, lease: dict[str, Any]) -> None:
    op.outcome, op.lease_id, op.fencing_token = "acquired", lease["lease_id"], lease["fencing_token"]
    op.acquired_at, op.expires_at = _time(lease["acquired_at"]), _time(lease["expires_at"])


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


class Watch(threading.Thread):
    """Follows all events, and resumes after the last one whenever its connection breaks."""

    def __init__(self, number: int, *, ports: list[int], token: str) -> None:
        super().__init__(daemon=True)
        self.delivered: list[Delivered] = []
        self.is_connected = threading.Event()
        self.stopped = threading.Event()
        self._number = number
        self._ports = ports
        self._stream = EventStream(ports[0], f"/watch?prefix={PREFIX}", token)

    def run(self) -> None:
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
                if event.event in EVENT_KINDS and event.id is not None:
                    self.delivered.append(
                        Delivered(
                            watch=self._number, id=event.id, kind=event.event, name=event.data["lock_name"],
                            fencing_token=event.data["fencing_token"],
                        )
                    )  # fmt: skip

    def stop(self) -> None:
        self.stopped.set()
        self._stream.close()
