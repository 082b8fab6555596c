"""For the tests of programs that use leases: FakeServer in memory, and pytest fixtures of a real server.

    # conftest.py
    pytest_plugins = ["octo.testing"]

    def test_the_report_runs_once(octo_client):
        with octo_client.lock("nightly-report"):
            ...

The server is the Octoadmin checkout that OCTOADMIN_DIR names, or the one that this package is part of.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from octo.client import Client
from octo.fake_server import SCOPES, FakeServer

__all__ = ["SCOPES", "CannotStart", "FakeServer", "OctoServer", "octo_client", "octo_fake", "octo_server"]
START_SECONDS = 120.0


class OctoServer(NamedTuple):
    """`token` may read and write locks."""

    url: str
    token: str

    def client(self) -> Client:
        return Client(self.url, self.token)


class CannotStart(Exception):
    """There is no server to start, or it did not start; the message says what to do."""


def find_checkout() -> Path:
    named = os.environ.get("OCTOADMIN_DIR")
    place = Path(named) if named else Path(__file__).resolve().parents[2]
    if not (place / "manage.py").exists() or not (place / "octoadmin").is_dir():
        raise CannotStart(
            f"{place} is no checkout of Octoadmin, which octo.testing runs as the server. Name one with OCTOADMIN_DIR."
        )
    return place


def start(checkout: Path, data: Path) -> tuple[subprocess.Popen[str], OctoServer]:
    """Everything that `make up` runs, on a free port, with a data directory of its own."""
    own = checkout / ".venv" / "bin" / "python"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    environment |= {"OCTO_DATA_DIR": str(data), "PORT": str(port), "HOST": "127.0.0.1", "LOG_LEVEL": "error"}
    with (data / "log").open("w") as log:
        process = subprocess.Popen(
            [str(own) if own.exists() else sys.executable, "manage.py", "up", "--stop-with-parent"],
            cwd=checkout, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, text=True,
        )  # fmt: skip
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        # Written, not printed: standard output is no terminal.
        secrets = data / "first-run.txt"
        token = re.search(r"octo_\w+", secrets.read_text()) if secrets.exists() else None
        if token:
            return process, OctoServer(f"http://127.0.0.1:{port}", token[0])
        time.sleep(0.1)
    stop(process)
    raise CannotStart(f"The server did not start:\n{(data / 'log').read_text()}")


def stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


# What would make it another server than the one we want.
_NOT_INHERITED = {
    "DATABASE_URL", "CELERY_BROKER_URL", "SECRET_KEY", "DJANGO_SETTINGS_MODULE", "HOST", "PORT", "OCTO_DATA_DIR",
    "OCTO_WORKERS", "LOG_LEVEL",
}  # fmt: skip


@pytest.fixture(scope="session")
def octo_server() -> Iterator[OctoServer]:
    """A server for all of the tests; locks of one test are there for the next, so take names of your own."""
    with tempfile.TemporaryDirectory(prefix="octo-") as directory:
        process, server = start(find_checkout(), Path(directory))
        try:
            yield server
        finally:
            stop(process)


@pytest.fixture
def octo_client(octo_server: OctoServer) -> Iterator[Client]:
    with octo_server.client() as client:
        yield client


@pytest.fixture
def octo_fake() -> FakeServer:
    """A server in memory, for this test alone: `octo_fake.client()`."""
    return FakeServer()
