"""The web server: uvicorn, serving octoadmin.asgi on HOST and PORT, in OCTO_WORKERS processes."""

import multiprocessing
import os
import resource
import shutil
import signal
import socket
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import psycopg
import uvicorn

from octoadmin import logs
from octoadmin.environment import Environment, environment
from octoadmin.run.pooler import MESSAGE, is_transaction_pooler
from octoadmin.run.preflight import bind_error_message

BACKLOG = 1024
# Streams and waiting requests need a connection each and little else. Beyond it requests get a 503.
MAX_CONNECTIONS = 10_000
# Open files that are not connections of clients.
OTHER_FILES = 1000
KEEP_ALIVE_SECONDS = 75
# For requests in progress when a stop is requested; then they are cancelled.
GRACE_SECONDS = 1
# Longer than a process needs to stop by itself.
KILL_SECONDS = 10


def raise_file_limit(connections: int) -> None:
    """A connection is an open file, and macOS allows a process 256 of them by default."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + OTHER_FILES
    limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def bind(host: str, port: int) -> socket.socket:
    """Raises OSError. `::` includes IPv4 where the system can serve both on one socket.

    Bound only: connections are refused until uvicorn listens, which it does when the application has started. A load
    balancer then sees a refusal and not a request that hangs."""
    is_ipv6 = ":" in host
    bound = socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_ipv6:
            dual_stack = host == "::" and socket.has_dualstack_ipv6()
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not dual_stack)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def config(application: Any) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        log_config=None,
        log_level="error",
        backlog=BACKLOG,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        # The application decides which proxies it trusts.
        proxy_headers=False,
    )


def serve(bound: socket.socket) -> None:
    """In this process, until a signal stops it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn raises the signal again after an orderly stop, which is no failure.
        signal.signal(number, lambda *_: sys.exit(0))
    raise_file_limit(MAX_CONNECTIONS)
    uvicorn.Server(config("octoadmin.asgi:application")).run(sockets=[bound])


def _serve_in_child(bound: socket.socket) -> None:
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    serve(bound)


def _stop_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


def supervise(bound: socket.socket, *, processes: int) -> int:
    """Runs until a signal stops it. If one process ends by itself, the others are stopped, and that is a failure."""
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_serve_in_child, args=(bound,)) for _ in range(processes)]
    received: list[int] = []

    def stop(number: int, _frame: Any) -> None:
        received.append(number)
        for child in children:
            child.terminate()

    for child in children:
        child.start()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    wait([child.sentinel for child in children])
    for child in children:
        child.terminate()
    for child in children:
        child.join(KILL_SECONDS)
        child.kill()
    return 0 if received else 1


def _empty(directory: Path) -> Path:
    """The server processes keep their metrics there, so that a scrape of any of them sums up all."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def refuse_transaction_pooler(env: Environment) -> None:
    if env.database_url and env.octo_prepared_statements:
        # A database that is not there yet is no reason not to start: requests get a 503 until it is.
        with suppress(psycopg.Error):
            if is_transaction_pooler(env.database_url):
                sys.exit(MESSAGE)


def main() -> None:
    env = environment()
    logs.configure(logs.logging_config(log_format=env.log_format, level=env.log_level))
    refuse_transaction_pooler(env)
    try:
        bound = bind(env.host, env.port)
    except OSError as error:
        sys.exit(bind_error_message(error, host=env.host, port=env.port))
    if env.workers > 1:
        # By port: another server may have the same data directory.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(_empty(env.data_dir / "metrics" / str(env.port)))
        sys.exit(supervise(bound, processes=env.workers))
    serve(bound)


if __name__ == "__main__":
    main()
