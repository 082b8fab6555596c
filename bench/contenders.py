"""The contenders of the comparison: each is started, claims and releases under load, and is stopped."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from bench import pgbench, redis_lock, wrk
from bench.processes import free_port, running, wait_for_http
from bench.samples import Sample
from bench.setup import Environment

FAST_PATH, DRF_PATH = "fast path", "DRF path"
ETCD, ETCD_SHARED = "etcd, a lease per claim", "etcd, one shared lease"
# Switches the fast path on or off.
FAST_PATH_SETTING = "OCTO_BATCHING"
# Runs claim-release pairs on a number of connections for a number of seconds.
Load = Callable[[int, int], Sample]


@dataclass(frozen=True)
class Contender:
    load: Load
    process: psutil.Process
    uses_postgres: bool = True


@dataclass(frozen=True)
class Spec:
    """What is known of a contender without running it."""

    name: str
    start: Callable[[Environment], AbstractContextManager[Contender]]
    protocol: str
    history: str
    requires: str | None = None


@contextmanager
def octoadmin_server(conninfo: str, directory: Path, *, fast_path: bool = True) -> Iterator[tuple[int, psutil.Process]]:
    port = free_port()
    log = directory / f"octoadmin-{port}.log"
    settings = {
        "DATABASE_URL": conninfo, "PORT": str(port), "HOST": "127.0.0.1", "LOG_LEVEL": "error", "OCTO_WORKERS": "1",
        "OCTO_REQUESTS_PER_SECOND": "1000000000", FAST_PATH_SETTING: str(int(fast_path)),
    }  # fmt: skip
    with running([sys.executable, "-m", "octoadmin.run.server"], log=log, environment=settings) as process:
        wait_for_http(port, "/health", log=log)
        yield port, process


def http_load(script: str, port: int, *, requests_per_pair: int, **environment: str) -> Load:
    def load(connections: int, seconds: int) -> Sample:
        return wrk.run(
            script, url=f"http://127.0.0.1:{port}", connections=connections, seconds=seconds,
            requests_per_pair=requests_per_pair, environment=environment,
        )  # fmt: skip

    return load


@contextmanager
def octoadmin(environment: Environment, *, fast_path: bool) -> Iterator[Contender]:
    conninfo = environment.cluster.conninfo()
    with octoadmin_server(conninfo, environment.directory, fast_path=fast_path) as (port, process):
        yield Contender(http_load("octoadmin.lua", port, requests_per_pair=2, TOKEN=environment.token), process)


@contextmanager
def plain_orm(environment: Environment) -> Iterator[Contender]:
    port, log = free_port(), environment.directory / "plain-orm.log"
    settings = {"DATABASE_URL": environment.create_database("plain_orm")}
    site = [sys.executable, "-m", "bench.plain_orm.site", environment.token]
    subprocess.run(site, check=True, env=os.environ | settings)
    command = [
        sys.executable, "-m", "granian", "--interface", "wsgi", "--workers", "1", "--blocking-threads", "8",
        "--http", "1", "--no-ws", "--host", "127.0.0.1", "--port", str(port), "--log-level", "error",
        "bench.plain_orm.site:application",
    ]  # fmt: skip
    with running(command, log=log, environment=settings) as process:
        wait_for_http(port, "/", log=log)
        yield Contender(http_load("octoadmin.lua", port, requests_per_pair=2, TOKEN=environment.token), process)


@contextmanager
def etcd_server(directory: Path, *, name: str) -> Iterator[tuple[int, psutil.Process]]:
    port, peer_port, log = free_port(), free_port(), directory / f"{name}.log"
    url, peer_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    command = [
        "etcd", "--data-dir", str(directory / name), "--log-level", "error",
        "--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer_url,
        "--initial-advertise-peer-urls", peer_url, "--initial-cluster", f"default={peer_url}",
        "--quota-backend-bytes", str(8 * 2**30),
    ]  # fmt: skip
    with running(command, log=log, environment={"ETCD_UNSUPPORTED_ARCH": "arm64"}) as process:
        wait_for_http(port, "/health", log=log)
        yield port, process


@contextmanager
def etcd(environment: Environment, *, shared: bool) -> Iterator[Contender]:
    with etcd_server(environment.directory, name=f"etcd-{shared}") as (port, process):
        if shared:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v3/lease/grant", data=b'{"TTL":"3600"}') as response:
                lease = json.load(response)["ID"]
            load = http_load("etcd.lua", port, requests_per_pair=2, LEASE=lease)
        else:
            load = http_load("etcd.lua", port, requests_per_pair=3)
        yield Contender(load, process, uses_postgres=False)


@contextmanager
def redis(environment: Environment) -> Iterator[Contender]:
    port, log, directory = free_port(), environment.directory / "redis.log", environment.directory / "redis"
    directory.mkdir()
    command = [
        "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", "",
        "--appendonly", "yes", "--appendfsync", "always",
    ]  # fmt: skip
    with running(command, log=log) as process:
        redis_lock.wait_ready(port)
        yield Contender(
            lambda connections, seconds: redis_lock.run(port, connections=connections, seconds=seconds),
            process, uses_postgres=False,
        )  # fmt: skip


@contextmanager
def engine_sql(environment: Environment) -> Iterator[Contender]:
    script = environment.directory / "engine.pgbench"
    script.write_text(pgbench.script(environment.digest))
    conninfo, directory = environment.cluster.conninfo(), environment.directory
    yield Contender(
        lambda connections, seconds: pgbench.run(
            script, conninfo=conninfo, connections=connections, seconds=seconds, directory=directory
        ),
        environment.postgres,
    )


SPECS = (
    Spec(FAST_PATH, partial(octoadmin, fast_path=True), "HTTP", "every transition"),
    Spec(DRF_PATH, partial(octoadmin, fast_path=False), "HTTP", "every transition"),
    Spec(ETCD, partial(etcd, shared=False), "HTTP (JSON gateway)", "old revisions until compaction", "etcd"),
    Spec(ETCD_SHARED, partial(etcd, shared=True), "HTTP (JSON gateway)", "none; all claims end together", "etcd"),
    Spec("plain ORM", plain_orm, "HTTP", "in a second query"),
    Spec("redis-py lock, appendfsync always", redis, "Redis, from Python threads", "none, and no fencing token",
         "redis-server"),
    Spec("pgbench, the engine's SQL unbatched", engine_sql, "PostgreSQL, no web server", "every transition"),
)  # fmt: skip
