"""The web server of `up`: uvicorn, serving octoadmin.asgi on HOST and PORT, in as many processes as are wanted."""

import multiprocessing
import os
import resource
import shutil
import signal
import socket
import sys
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from octoadmin import logs
from octoadmin.environment import environment
from octoadmin.up.claims import why_not

# Files beside connections.
OTHER_FILES = 1000
# Longer than a process needs to end by itself.
KILL_SECONDS = 10


def allow_connections(count: int) -> None:
    """A connection is an open file, and macOS allows a process 256 of them unless it asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + OTHER_FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def listen(host: str, port: int) -> socket.socket:
    """Raises OSError. All addresses of IPv6 are those of IPv4 too, where the system can do both on one socket."""
    if ":" not in host:
        return socket.create_server((host, port))
    is_both = host == "::" and socket.has_dualstack_ipv6()
    return socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=is_both)


def serve(listener: socket.socket, *, parent: int | None = None) -> None:
    """In this process, until it is told to stop."""
    # Here, because what they count goes where main() has said by now.
    from octoadmin.serving.connection import MAX_CONNECTIONS
    from octoadmin.serving.http_server import HttpServer

    allow_connections(MAX_CONNECTIONS)
    HttpServer("octoadmin.asgi:application", parent=parent).run(sockets=[listener])


def supervise(listener: socket.socket, *, processes: int) -> int:
    """All of them until they are told to stop; if one ends by itself, the others are stopped, and that is a failure."""
    context = multiprocessing.get_context("fork")
    children = [
        context.Process(target=serve, args=(listener,), kwargs={"parent": os.getpid()}) for _ in range(processes)
    ]
    told: list[int] = []

    def stop(number: int, _frame: Any) -> None:
        told.append(number)
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
    return 0 if told else 1


def _empty(directory: Path) -> Path:
    """Where the server processes keep their numbers, so that a scrape of any of them sums up all."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def main() -> None:
    wanted = environment()
    logs.configure(logs.logging_config(log_format=wanted.log_format, level=wanted.log_level))
    try:
        listener = listen(wanted.host, wanted.port)
    except OSError as error:
        sys.exit(why_not(error, host=wanted.host, port=wanted.port))
    if wanted.workers > 1:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(_empty(wanted.data_dir / "metrics"))
        sys.exit(supervise(listener, processes=wanted.workers))
    serve(listener)


if __name__ == "__main__":
    main()
