"""The sides of the comparison: each is started, claims and releases under load, and is stopped."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench import engine_alone, redis_lock, wrk
from bench.processes import free_port, running, wait_for_http
from bench.slices import Slice
from octoadmin.run.postgres import Cluster

Load = Callable[[int, int], Slice]


@dataclass(frozen=True)
class Place:
    """What the sides share: a directory, PostgreSQL, and a token of a space."""

    directory: Path
    cluster: Cluster
    conninfo: str
    plain_conninfo: str
    postgres: psutil.Process
    token: str
    digest: str


@dataclass(frozen=True)
class Side:
    """`load` claims and releases on so many connections for so many seconds."""

    name: str
    load: Load
    processes: tuple[psutil.Process, ...]


@dataclass(frozen=True)
class Kind:
    """What can be said of a side without running it."""

    name: str
    start: Callable[[Place], AbstractContextManager[Side]]
    spoken: str
    durable: str
    history: str
    needs: str | None = None


@contextmanager
def octoadmin_server(place: Place, name: str, **environment: str) -> Iterator[tuple[int, psutil.Process]]:
    port = free_port()
    log = place.directory / f"{name.replace(' ', '-')}.log"
    settings = {
        "DATABASE_URL": place.conninfo, "PORT": str(port), "HOST": "127.0.0.1", "LOG_LEVEL": "error",
        "OCTO_REQUESTS_PER_SECOND": "1000000000", "OCTO_DATA_DIR": str(place.directory / "data"),
        "SECRET_KEY": "only for measurements, and nothing else", **environment,
    }  # fmt: skip
    with running([sys.executable, "-m", "octoadmin.run.server"], log=log, environment=settings) as process:
        wait_for_http(port, "/health", log=log)
        yield port, process


@contextmanager
def _octoadmin(place: Place, name: str, **environment: str) -> Iterator[Side]:
    with octoadmin_server(place, name, **environment) as (port, process):
        yield Side(name, _http("octoadmin.lua", port, steps=2, TOKEN=place.token), (process, place.postgres))


def _http(script: str, port: int, *, steps: int, **environment: str) -> Load:
    def load(connections: int, seconds: int) -> Slice:
        return wrk.run(
            script, url=f"http://127.0.0.1:{port}", connections=connections, seconds=seconds, steps_per_pair=steps,
            environment=environment,
        )  # fmt: skip

    return load


def fast_lane(place: Place) -> AbstractContextManager[Side]:
    return _octoadmin(place, "fast lane", OCTO_BATCHING="1")


def drf_lane(place: Place) -> AbstractContextManager[Side]:
    return _octoadmin(place, "DRF lane", OCTO_BATCHING="0")


@contextmanager
def plain_orm(place: Place) -> Iterator[Side]:
    port, log = free_port(), place.directory / "plain-orm.log"
    settings = {"DATABASE_URL": place.plain_conninfo}
    subprocess.run([sys.executable, "-m", "bench.plain_orm.site", place.token], check=True, env=os.environ | settings)
    command = [
        sys.executable, "-m", "granian", "--interface", "wsgi", "--workers", "1", "--blocking-threads", "8",
        "--http", "1", "--no-ws", "--host", "127.0.0.1", "--port", str(port), "--log-level", "error",
        "bench.plain_orm.site:application",
    ]  # fmt: skip
    with running(command, log=log, environment=settings) as process:
        wait_for_http(port, "/", log=log)
        yield Side("plain ORM", _http("octoadmin.lua", port, steps=2, TOKEN=place.token), (process, place.postgres))


@contextmanager
def _etcd(place: Place, name: str, *, shared: bool) -> Iterator[Side]:
    port, peer, log = free_port(), free_port(), place.directory / f"etcd-{shared}.log"
    command = [
        "etcd", "--data-dir", str(place.directory / f"etcd-{shared}"), "--log-level", "error",
        "--listen-client-urls", f"http://127.0.0.1:{port}", "--advertise-client-urls", f"http://127.0.0.1:{port}",
        "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
        "--initial-cluster", f"default=http://127.0.0.1:{peer}", "--quota-backend-bytes", str(8 * 2**30),
    ]  # fmt: skip
    with running(command, log=log, environment={"ETCD_UNSUPPORTED_ARCH": "arm64"}) as process:
        wait_for_http(port, "/health", log=log)
        if not shared:
            yield Side(name, _http("etcd.lua", port, steps=3), (process,))
            return
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/v3/lease/grant", data=b'{"TTL":"3600"}', method="POST")
        with urllib.request.urlopen(asked) as answer:  # noqa: S310
            lease = json.load(answer)["ID"]
        yield Side(name, _http("etcd.lua", port, steps=2, LEASE=lease), (process,))


def etcd_own_leases(place: Place) -> AbstractContextManager[Side]:
    return _etcd(place, "etcd, a lease per claim", shared=False)


def etcd_shared_lease(place: Place) -> AbstractContextManager[Side]:
    return _etcd(place, "etcd, one shared lease", shared=True)


@contextmanager
def redis(place: Place) -> Iterator[Side]:
    port, log, directory = free_port(), place.directory / "redis.log", place.directory / "redis"
    directory.mkdir()
    command = [
        "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", "",
        "--appendonly", "yes", "--appendfsync", "always",
    ]  # fmt: skip
    with running(command, log=log) as process:
        redis_lock.wait_ready(port)
        yield Side(
            "redis-py lock, appendfsync always",
            lambda connections, seconds: redis_lock.run(port, connections=connections, seconds=seconds),
            (process,),
        )


@contextmanager
def pgbench(place: Place) -> Iterator[Side]:
    script = place.directory / "engine.pgbench"
    script.write_text(engine_alone.script(place.digest))
    yield Side(
        "pgbench, the engine's SQL one by one",
        lambda connections, seconds: engine_alone.run(
            script, conninfo=place.conninfo, connections=connections, seconds=seconds, directory=place.directory
        ),
        (place.postgres,),
    )


KINDS = (
    Kind("fast lane", fast_lane, "HTTP", "yes, fsync before the answer", "yes, every transition"),
    Kind("DRF lane", drf_lane, "HTTP", "yes, fsync before the answer", "yes, every transition"),
    Kind(
        "etcd, a lease per claim", etcd_own_leases, "HTTP (JSON gateway)", "yes, fsync before the answer",
        "no: old revisions until compaction", "etcd",
    ),
    Kind(
        "etcd, one shared lease", etcd_shared_lease, "HTTP (JSON gateway)", "yes, fsync before the answer",
        "no, and all claims end together", "etcd",
    ),
    Kind("plain ORM", plain_orm, "HTTP", "yes, fsync before the answer", "yes, in a second query"),
    Kind(
        "redis-py lock, appendfsync always", redis, "Redis' own, from Python threads", "yes, fsync before the answer",
        "no; no fencing token either", "redis-server",
    ),
    Kind(
        "pgbench, the engine's SQL one by one", pgbench, "PostgreSQL's own, no web server",
        "yes, fsync before the answer", "yes, every transition",
    ),
)  # fmt: skip
