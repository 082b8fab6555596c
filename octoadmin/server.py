"""The web server of `up`: granian, serving octoadmin.asgi on HOST and PORT."""

import multiprocessing
import os
import resource
import shutil
from pathlib import Path

from granian.constants import HTTPModes, Interfaces, Loops
from granian.log import LogLevels
from granian.server import Server

from octoadmin import logs
from octoadmin.environment import environment
from octoadmin.serving.ending import END_IS_NEAR

# Live streams and waiting requests hold a connection each and little else, so there may be many.
CONNECTIONS = 10_000
# A live stream has no end of its own; after this many seconds a stop cuts it off, and browsers come back.
STOP_SECONDS = 1


def allow_connections(count: int) -> None:
    """A connection is an open file, and macOS allows a process 256 of them unless it asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 1000
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class StoppingServer(Server):  # type: ignore[misc,valid-type]
    """Tells its processes that the end is near. To be told to stop is too late for requests that wait: from then on the
    web server only lets those finish that do so by themselves."""

    def shutdown(self, exit_code: int = 0) -> None:
        for child in multiprocessing.active_children():
            if child.pid is not None:
                os.kill(child.pid, END_IS_NEAR)
        super().shutdown(exit_code)


def _empty(directory: Path) -> Path:
    """Where the server processes keep their numbers, so that a scrape of any of them sums up all."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def main() -> None:
    wanted = environment()
    logs.configure(logs.logging_config(log_format=wanted.log_format, level=wanted.log_level))
    allow_connections(CONNECTIONS)
    if wanted.workers > 1:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(_empty(wanted.data_dir / "metrics"))
    StoppingServer(
        "octoadmin.asgi:application",
        address=wanted.host,
        port=wanted.port,
        interface=Interfaces.ASGI,
        workers=wanted.workers,
        loop=Loops.uvloop,
        http=HTTPModes.http1,
        websockets=False,
        backlog=1024,
        backpressure=CONNECTIONS,
        workers_kill_timeout=STOP_SECONDS,
        respawn_failed_workers=False,
        log_level=LogLevels.error,
        # Its lines go where all the others go.
        log_dictconfig={
            "version": 1, "disable_existing_loggers": False, "formatters": {}, "handlers": {}, "loggers": {}
        },
    ).serve()  # fmt: skip


if __name__ == "__main__":
    main()
