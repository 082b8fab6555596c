"""How many leases one server keeps alive: renewed one by one, a thousand at a time, and by a session's keepalive."""

import http.client
import json
import statistics
from dataclasses import dataclass
from typing import Any

from bench import wrk
from bench.sides import Place, octoadmin_server

TTL_SECONDS = 60
# A lease is renewed when half of it is left.
RENEWED_EVERY = TTL_SECONDS / 2
LEASES = 2000
TOGETHER = 1000
OF_SESSION = 100
ROUNDS = 3
SECONDS = 2


@dataclass(frozen=True)
class Heartbeats:
    how: str
    requests_per_second: float
    leases_per_request: int

    @property
    def kept_alive(self) -> float:
        return self.requests_per_second * self.leases_per_request * RENEWED_EVERY


def measure(place: Place) -> tuple[list[Heartbeats], list[str]]:
    """And what was left out."""
    left_out = []
    with octoadmin_server(place, "heartbeats") as (port, _process):
        leases = _claim(place, port, LEASES)
        one_by_one = place.directory / "leases"
        one_by_one.write_text("".join(f"{lease['name']} {lease['lease_id']}\n" for lease in leases))
        together = place.directory / "renew-all.json"
        asked = [{"name": lease["name"], "lease_id": lease["lease_id"]} for lease in leases[:TOGETHER]]
        together.write_text(json.dumps({"leases": asked}))
        runs: list[tuple[str, str, int, int, dict[str, str]]] = [
            ("renew, one by one (64 connections)", "renew.lua", 64, 1, {"LEASES": str(one_by_one)}),
            (
                f"renew-all, {TOGETHER:,} at a time (4 connections)", "post.lua", 4, TOGETHER,
                {"TO": "/locks/renew-all", "BODY": str(together)},
            ),
        ]  # fmt: skip
        if (session := _session(place, port)) is not None:
            to = {"TO": f"/sessions/{session}/keepalive"}
            runs.append(
                (f"keepalive of sessions with {OF_SESSION} locks (16 connections)", "post.lua", 16, OF_SESSION, to)
            )
        else:
            left_out.append("keepalive of sessions: this server has none")
        rates: dict[str, list[float]] = {}
        for _round in range(ROUNDS):
            for how, script, connections, _leases, environment in runs:
                done = wrk.run(
                    script, url=f"http://127.0.0.1:{port}", connections=connections, seconds=SECONDS, steps_per_pair=1,
                    environment={"TOKEN": place.token, **environment},
                )  # fmt: skip
                if done.failed:
                    raise RuntimeError(f"{how}: {done.failed} requests failed")
                rates.setdefault(how, []).append(done.pairs_per_second)
        return [Heartbeats(how, statistics.median(rates[how]), each) for how, _, _, each, _ in runs], left_out


def _call(place: Place, port: int, path: str, body: Any) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": f"Bearer {place.token}", "Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, json.loads(content) if content else None


def _claim(place: Place, port: int, count: int, **terms: Any) -> list[dict[str, Any]]:
    leases: list[dict[str, Any]] = []
    for start in range(0, count, 100):
        names = [f"heartbeat/{len(terms)}/{number:05}" for number in range(start, min(start + 100, count))]
        status, answer = _call(place, port, "/locks/acquire-all", {"names": names, "ttl_seconds": 600, **terms})
        assert status == 200, answer
        leases += answer["leases"]
    return leases


def _session(place: Place, port: int) -> str | None:
    """One that holds a hundred locks; None where there are no sessions yet."""
    status, answer = _call(place, port, "/sessions", {"ttl_seconds": 300})
    if status != 201:
        return None
    session: str = answer["session_id"]
    for number in range(OF_SESSION):
        body = {"ttl_seconds": 600, "session_id": session}
        status, lease = _call(place, port, f"/locks/of-session/{number:05}/acquire", body)
        assert (status, lease["status"]) == (200, "acquired"), lease
    return session
