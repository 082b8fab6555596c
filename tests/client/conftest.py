"""A real server for the client, on a database of its own that stays for all of these tests."""

import logging
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from locks.models import Scope, Space, Team
from locks.models.token import PRESETS
from octo import Client, names
from tests import database
from tests.client.command_line import CommandLine
from tests.conftest import issue
from tests.fault_proxy import FaultProxy
from tests.servers import RunningServer

# It logs every request.
logging.getLogger("httpx").setLevel(logging.WARNING)


@dataclass
class Backend:
    server: RunningServer
    operator_token: str
    worker_token: str

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def environment(self) -> dict[str, str]:
        """What the command line needs to know."""
        return {"OCTO_URL": self.url, "OCTO_TOKEN": self.worker_token}


@pytest.fixture(scope="session")
def backend(django_db_blocker: Any) -> Iterator[Backend]:
    """For the whole run: tests come in random order, and a package is left and entered many times."""
    name = f"{os.environ[database.TEMPLATE]}_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_client"
    database.create_copy(name)
    url = database.conninfo(name)
    with django_db_blocker.unblock(), database.used_by_django(name):
        space = Space.objects.create(team=Team.objects.create(slug="blue", name="Blue"), slug="main", name="Main")
        operator, worker = issue(space, "operator", *Scope.values), issue(space, "worker", *PRESETS["worker"])
    # A storm of tests is no flood.
    server = RunningServer(url, {"OCTO_FAILED_AUTHENTICATIONS_PER_MINUTE": "10000", "OCTO_PUBLIC_ELECTIONS": "true"})
    try:
        server.start()
        yield Backend(server, operator, worker)
    finally:
        server.stop()
        with database.maintenance() as connection:
            database.drop(connection, name)


@pytest.fixture
def client(backend: Backend) -> Iterator[Client]:
    with Client(backend.url, backend.worker_token, retry_for=5) as client:
        yield client


@pytest.fixture
def operator(backend: Backend) -> Iterator[Client]:
    """May release by force, and read the history."""
    with Client(backend.url, backend.operator_token, retry_for=5) as client:
        yield client


@pytest.fixture
def octo(backend: Backend, tmp_path: Path) -> Iterator[CommandLine]:
    """The command line of a worker, with a state of its own."""
    command_line = CommandLine(backend.environment, tmp_path)
    yield command_line
    command_line.end_all()


@pytest.fixture
def no_namespaced_leases(operator: Client) -> None:
    """A lease that another test has left would overlap with a `repo:` name, or one of its own kind."""
    for namespace in names.DEFAULT_RULES:
        for lock in list(operator.locks(prefix=f"{namespace}:")):
            operator.force_release(lock.name, reason="left by another test", fencing_token=lock.fencing_token)


@pytest.fixture
def proxy(backend: Backend) -> Iterator[FaultProxy]:
    proxy = FaultProxy(backend.server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def name() -> str:
    """Of a lock that no other test knows."""
    return f"job-{uuid.uuid4().hex[:12]}"
