"""How many leases one server keeps alive: with renew, with renew-all, and with a session's keepalive."""

import json
import statistics
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bench.contenders import http_load, octoadmin_server
from bench.setup import Environment

TTL_SECONDS = 60
# Clients renew a lease when half of its TTL is left.
RENEW_INTERVAL_SECONDS = TTL_SECONDS / 2
LEASES = 2000
BULK_SIZE = 1000
LOCKS_PER_SESSION = 100
ROUNDS = 3
SECONDS = 2


@dataclass
class Method:
    """`requests` are paths and bodies, sent in turn."""

    name: str
    connections: int
    leases_per_request: int
    requests: list[tuple[str, Any]]
    rates: list[float] = field(default_factory=list)

    @property
    def requests_per_second(self) -> float:
        return statistics.median(self.rates)


def measure(environment: Environment) -> list[Method]:
    conninfo, directory = environment.cluster.conninfo(), environment.directory
    with octoadmin_server(conninfo, directory) as (port, _process):
        methods = _methods(f"http://127.0.0.1:{port}", environment.token)
        for method in methods:
            lines = (f"{path} {'' if body is None else json.dumps(body)}\n" for path, body in method.requests)
            (directory / method.name).write_text("".join(lines))
        for _round in range(ROUNDS):
            for method in methods:
                load = http_load(
                    "requests.lua", port, requests_per_pair=1,
                    TOKEN=environment.token, REQUESTS=str(directory / method.name),
                )  # fmt: skip
                sample = load(method.connections, SECONDS)
                if sample.failed:
                    raise RuntimeError(f"{method.name}: {sample.failed} requests failed")
                method.rates.append(sample.pairs_per_second)
        return methods


def _methods(url: str, token: str) -> list[Method]:
    def post(path: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url + path, json.dumps(body).encode(), headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
            return json.load(response)

    leases: list[dict[str, Any]] = []
    for start in range(0, LEASES, 100):
        names = [f"renewed/{number:05}" for number in range(start, start + 100)]
        leases += post("/locks/acquire-all", {"names": names, "ttl_seconds": 600})["leases"]
    session = post("/sessions", {"ttl_seconds": 300})["session_id"]
    for number in range(LOCKS_PER_SESSION):
        lease = post(f"/locks/of-session/{number:05}/acquire", {"ttl_seconds": 600, "session_id": session})
        assert lease["status"] == "acquired", lease
    bulk = [{"name": lease["name"], "lease_id": lease["lease_id"]} for lease in leases[:BULK_SIZE]]
    return [
        Method(
            "renew", 64, 1, [(f"/locks/{lease['name']}/renew", {"lease_id": lease["lease_id"]}) for lease in leases]
        ),
        Method("renew-all", 4, BULK_SIZE, [("/locks/renew-all", {"leases": bulk})]),
        Method("session keepalive", 16, LOCKS_PER_SESSION, [(f"/sessions/{session}/keepalive", None)]),
    ]


def lines(methods: list[Method]) -> Iterator[str]:
    yield "| request | connections | leases per request | requests/s | leases renewed/s | leases per server |"
    yield "|---|---:|---:|---:|---:|---:|"
    for method in methods:
        renewed = method.requests_per_second * method.leases_per_request
        yield (
            f"| {method.name} | {method.connections} | {method.leases_per_request:,} | "
            f"{method.requests_per_second:,.0f} | {renewed:,.0f} | {renewed * RENEW_INTERVAL_SECONDS:,.0f} |"
        )
