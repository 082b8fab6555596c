"""Processes that start fast, servers and command lines: forked from a process that has imported all modules and served
no request.

Settings of servers are read once, at import, from the environment of the tests, or of the first server where that has
no settings. Those of PER_SERVER can differ from them: they are read at start, or applied by `_apply`.
"""

import ctypes
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver
from pathlib import Path
from unittest import mock

from octoadmin.environment import Environment

PER_SERVER = {
    "HOST", "PORT", "LOG_LEVEL", "LOG_FORMAT", "DATABASE_URL", "OCTO_BATCHING", "OCTO_REQUESTS_PER_SECOND",
    "OCTO_FAILED_AUTHENTICATIONS_PER_MINUTE", "OCTO_PUBLIC_ELECTIONS", "OCTO_WEBHOOK_NETWORKS", "OCTO_DATABASE_SECONDS",
}  # fmt: skip
PR_SET_PDEATHSIG = 1
# Of every server of the tests.
ALWAYS = {"OCTO_WORKERS": "1"}
_context = multiprocessing.get_context("forkserver")
_preloaded: dict[str, str | None] = {}


def _settings(environment: Mapping[str, str]) -> dict[str, str | None]:
    return {name: environment.get(name) for name in map(str.upper, Environment.model_fields) if name not in PER_SERVER}


class ForkedServer:
    """With the interface of `subprocess.Popen`."""

    def __init__(self, environment: Mapping[str, str], log: Path | None) -> None:
        self._process = _context.Process(target=_serve, args=(dict(environment), log))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("octoadmin.run.server", timeout or 0)
        return self.returncode

    def terminate(self) -> None:
        self._process.terminate()


def fork_server(environment: Mapping[str, str], log: Path | None) -> ForkedServer | None:
    """None if its other settings differ from the preloaded ones."""
    _ensure_running(environment)
    return ForkedServer(environment, log) if _settings(environment) == _preloaded else None


def run_forked(
    command: Callable[[list[str]], int], words: Sequence[str], *, environment: Mapping[str, str], directory: Path,
    timeout: float,
) -> "subprocess.CompletedProcess[str]":  # fmt: skip
    """As `subprocess.run` would, without input."""
    _ensure_running(os.environ)
    with tempfile.TemporaryDirectory() as outputs:
        paths = [Path(outputs) / name for name in ("stdout", "stderr")]
        process = _context.Process(target=_run_command, args=(command, [*words], {**environment}, directory, *paths))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(words, timeout)
        return subprocess.CompletedProcess(words, process.exitcode, *(path.read_text() for path in paths))


def _ensure_running(environment: Mapping[str, str]) -> None:
    if not _preloaded:
        preloaded = os.environ | ALWAYS if "SECRET_KEY" in os.environ else environment
        _context.set_forkserver_preload(["tests.forkserver_preload", "octoadmin.run.server", "octoadmin.asgi"])
        with mock.patch.dict(os.environ, preloaded):
            forkserver.ensure_running()
        _preloaded.update(_settings(preloaded))


def end_with_parent() -> None:
    """Also if the parent is killed. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _run_command(
    command: Callable[[list[str]], int], words: list[str], environment: dict[str, str], directory: Path, stdout: Path,
    stderr: Path,
) -> None:  # fmt: skip
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate((Path(os.devnull), stdout, stderr)):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    # As in a new process.
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    logging.getLogger().handlers.clear()
    sys.exit(command(words))


def _serve(environment: dict[str, str], log: Path | None) -> None:
    from octoadmin.run import server

    end_with_parent()
    os.setpgid(0, 0)
    if log is not None:
        with log.open("ab") as opened:
            os.dup2(opened.fileno(), sys.stdout.fileno())
            os.dup2(opened.fileno(), sys.stderr.fileno())
    os.environ.update(environment)
    _apply()
    server.main()


def _apply() -> None:
    from django.conf import settings as configured
    from django.db import connections

    from locks.api.limits import limits
    from locks.queue.singletons import wait_queue
    from octoadmin import asgi, settings
    from octoadmin.environment import environment

    environment.cache_clear()
    new = environment()
    connections.settings["default"].update(settings._database(new.database_url))
    limits.__init__(  # type: ignore[misc]
        requests_per_second=new.octo_requests_per_second,
        failures_per_minute=new.octo_failed_authentications_per_minute,
        processes=new.workers,
    )
    configured.PUBLIC_ELECTIONS = new.octo_public_elections
    configured.WEBHOOK_NETWORKS = new.octo_webhook_networks
    configured.DATABASE_SECONDS = new.octo_database_seconds
    configured.SERVER_NAME = f"{configured.SERVER_NAME.partition(':')[0]}:{new.port}"
    asgi._http = asgi.batching if new.octo_batching else asgi.bridge
    # A new queue, as in a process that was not forked: its server id must be unique.
    wait_queue.__init__()  # type: ignore[misc]
