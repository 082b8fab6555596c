"""Writes and reads of a run's store over HTTP beside etcd's put and range, and their cost by the number of entries.

Both are measured by the same load generator, a Python process that shares the machine: it slows both, so ratios are
nearer to 1 than with a faster one. A turn of one contender follows a turn of the other, and ratios compare neighbouring
turns.
"""

import asyncio
import base64
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from django.db import connection

from bench import dependencies
from bench.contenders import etcd_server, octoadmin_server
from bench.setup import Environment
from locks.engine.execution import run
from locks.models import Space
from locks.runs import kv, lifecycle
from locks.services import tokens
from locks.services.audit import Actor
from locks.token_format import parse

CONNECTIONS = 64
SECONDS = 2.0
TURNS = 6
KEYS = 5_000
VALUE = "host=runner-7"
GOALS = {"get": 1.0, "set": 0.8}
SIZES = (100, 1_000_000)
MAX_GROWTH = 1.3
STATEMENTS = 300
_FILL = """
INSERT INTO octo_kv_entry (layer_id, path, version, value, encoding, size, written_by, written_at)
SELECT layer.id, '/shared/fill-' || n, 1, '"x"', 'json', 3, 'lead', now()
FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, %(layers)s) OFFSET 0) AS layer
CROSS JOIN generate_series(1, 10000) AS n
"""

# The bytes of the next request.
Next = Callable[[], bytes]


@dataclass
class Measured:
    """Requests per second by contender and operation, a number for each turn; milliseconds of a statement by size."""

    rates: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    statement_ms: dict[tuple[str, int], float] = field(default_factory=dict)

    def ratio(self, operation: str) -> float | None:
        ours, theirs = self.rates["octoadmin", operation], self.rates.get(("etcd", operation))
        return statistics.median(a / b for a, b in zip(ours, theirs, strict=True)) if theirs else None

    def growth(self, operation: str) -> float:
        return self.statement_ms[operation, SIZES[-1]] / self.statement_ms[operation, SIZES[0]]


def measure(environment: Environment, *, turns: int = TURNS, seconds: float = SECONDS) -> Measured:
    measured = Measured()
    token = start_run()
    with ExitStack() as stack:
        conninfo = environment.cluster.conninfo()
        port, _process = stack.enter_context(octoadmin_server(conninfo, environment.directory))
        contenders = {"octoadmin": (port, octoadmin_requests(token))}
        if dependencies.is_available("etcd"):
            etcd_port, _etcd = stack.enter_context(etcd_server(environment.directory, name="etcd-store"))
            contenders["etcd"] = (etcd_port, _etcd_requests())
        for operation in ("set", "get"):
            for turn in range(turns + 1):
                order = list(contenders) if turn % 2 else list(reversed(contenders))
                for name in order:
                    target, requests = contenders[name]
                    rate = asyncio.run(load(target, requests[operation], seconds=seconds))
                    # The first turn prepares statements and creates the keys.
                    if turn:
                        measured.rates.setdefault((name, operation), []).append(rate)
    measure_growth(measured, token)
    return measured


def lines(measured: Measured) -> Iterator[str]:
    yield f"| {CONNECTIONS} connections | Octoadmin, 1/s | etcd, 1/s | ratio | goal |"
    yield "|---|---:|---:|---:|---:|"
    for operation, goal in GOALS.items():
        ours = statistics.median(measured.rates["octoadmin", operation])
        theirs = measured.rates.get(("etcd", operation))
        ratio = measured.ratio(operation)
        cells = (f"{statistics.median(theirs):,.0f}", f"{ratio:.2f}") if theirs and ratio else ("left out", "")
        yield f"| {operation} | {ours:,.0f} | {cells[0]} | {cells[1]} | ≥ {goal} |"
    yield ""
    yield f"| one statement, ms | {SIZES[0]:,} entries | {SIZES[-1]:,} entries | ratio | goal |"
    yield "|---|---:|---:|---:|---:|"
    for operation in GOALS:
        small, large = (measured.statement_ms[operation, size] for size in SIZES)
        yield f"| {operation} | {small:.2f} | {large:.2f} | {measured.growth(operation):.2f} | ≤ {MAX_GROWTH} |"


def start_run() -> str:
    space = Space.objects.get(team__slug="bench")
    scopes = ["locks:read", "locks:write", "runs:manage"]
    _plaintext, creator = tokens.issue(actor=Actor.of_shell(), space=space, name="orchestrator", scopes=scopes)
    joined = lifecycle.start(
        actor=Actor.of_token(creator), creator=creator, name="bench", metadata=None, ttl_seconds=86_400, max_depth=1,
        dump=False, session_ttl_seconds=300,
    )  # fmt: skip
    return joined.plaintext


def octoadmin_requests(token: str) -> dict[str, Next]:
    numbers = itertools.cycle(range(KEYS))
    head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\n"
    body = json.dumps({"value": VALUE})
    typed = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"

    def request(method: str, rest: str) -> bytes:
        return f"{method} /kv/shared/key-{next(numbers)} HTTP/1.1\r\n{rest}".encode()

    return {"set": lambda: request("PUT", typed), "get": lambda: request("GET", f"{head}\r\n")}


def _etcd_requests() -> dict[str, Next]:
    numbers = itertools.cycle(range(KEYS))

    def post(path: str, message: dict[str, str]) -> bytes:
        body = json.dumps(message)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()

    def key() -> str:
        return base64.b64encode(f"/shared/key-{next(numbers)}".encode()).decode()

    value = base64.b64encode(VALUE.encode()).decode()
    return {
        "set": lambda: post("/v3/kv/put", {"key": key(), "value": value}),
        "get": lambda: post("/v3/kv/range", {"key": key()}),
    }


async def load(port: int, next_request: Next, *, seconds: float) -> float:
    """Requests per second, each connection with one in flight."""
    deadline = time.perf_counter() + seconds

    async def client() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        done = 0
        while time.perf_counter() < deadline:
            writer.write(next_request())
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert head.startswith(b"http/1.1 200"), head
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            done += 1
        writer.close()
        return done

    started = time.perf_counter()
    counts = await asyncio.gather(*(client() for _ in range(CONNECTIONS)))
    return sum(counts) / (time.perf_counter() - started)


def measure_growth(measured: Measured, token: str) -> None:
    presented = parse(token)
    assert presented is not None
    digest = presented.digest.hex()
    with connection.cursor() as cursor:
        # 100 entries remain.
        cursor.execute("DELETE FROM octo_kv_entry WHERE path !~ '^/shared/key-[0-9]{1,2}$'")
        for size in SIZES:
            if size > 10_000:
                cursor.execute(_FILL, {"layers": size // 10_000})
            cursor.execute("VACUUM ANALYZE octo_kv_entry")
            for operation in GOALS:
                measured.statement_ms[operation, size] = _statement_ms(operation, digest)


def _statement_ms(operation: str, digest: str) -> float:
    times = []
    for number in range(STATEMENTS):
        path = f"/shared/key-{number % 100}"
        started = time.perf_counter()
        if operation == "get":
            run(kv.get([kv.KvGet(digest=digest, path=path)]))
        else:
            run(kv.put([kv.KvPut(digest=digest, path=path, value=b'"host=runner-7"', encoding="json", size=15)]))
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)
