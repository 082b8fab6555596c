"""`kill -9` in the middle of a claim storm: what was acknowledged is still true afterwards."""

import http.client
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from octoadmin.run.postgres import Cluster, stop
from tests.servers import Api, RunningServer
from tests.torture.installation import create_token

pytestmark = pytest.mark.timeout(240)

WORKERS = 6
# Long enough to outlive the test, so that nothing ends by itself.
TTL = 3600


@dataclass
class Database:
    """A cluster with the settings it has in production, fsync included."""

    cluster: Cluster
    log: Path
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = self.cluster.start(log=log)
        self.cluster.wait_ready(self.process)

    def kill(self) -> None:
        """The postmaster dies at once; its children notice and leave."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Storm:
    """Workers that take locks of their own names and release every other one, until the server fails them.
    Requests without an answer are in `unknown`: they may or may not have taken effect."""

    port: int
    token: str
    held: dict[str, dict] = field(default_factory=dict)
    released: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    acknowledged: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def run(self, storm: int) -> list[threading.Thread]:
        threads = [threading.Thread(target=self._work, args=(f"storm-{storm}/{n}",)) for n in range(WORKERS)]
        for thread in threads:
            thread.start()
        return threads

    def _work(self, prefix: str) -> None:
        api = Api(self.port, self.token)
        name = ""
        try:
            for number in range(10_000):
                name = f"{prefix}/{number}"
                answer = api.call("POST", f"/locks/{name}/acquire", {"ttl_seconds": TTL})
                if answer.status != 200:
                    return self.unknown.add(name)
                lease = answer.json()
                self.held[name] = lease
                if number % 2:
                    answer = api.call("POST", f"/locks/{name}/release", {"lease_id": lease["lease_id"]})
                    del self.held[name]
                    if answer.status != 200:
                        return self.unknown.add(name)
                    self.released.add(name)
                self.acknowledged.release()
        except (OSError, http.client.HTTPException):
            self.held.pop(name, None) if int(name.rpartition("/")[2]) % 2 else None
            self.unknown.add(name)
        finally:
            api.close()


@pytest.fixture
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with tempfile.TemporaryDirectory(prefix="octo-chaos-") as directory:
        database = Database(Cluster(directory=Path(directory) / "postgres"), Path(directory) / "postgres.log")
        database.cluster.initialise()
        database.start()
        database.cluster.create_database()
        yield database
        assert database.process is not None
        stop(database.process)


def check(api: Api, storm: Storm) -> None:
    assert storm.held
    assert storm.released
    for name, lease in storm.held.items():
        found = api.call("GET", f"/locks/{name}").json()
        assert (found["status"], found["fencing_token"]) == ("held", lease["fencing_token"]), name
    for name in storm.released:
        assert api.call("GET", f"/locks/{name}").json()["status"] == "free", name


def says_unavailable(api: Api) -> None:
    for method, path in (("POST", "/locks/a/acquire"), ("GET", "/locks/a"), ("GET", "/locks"), ("GET", "/whoami")):
        answer = api.call(method, path)
        assert (answer.status, answer.json()["code"]) == (503, "unavailable"), path
        assert answer.headers["Retry-After"] == "1"
    assert api.call("GET", "/health").status == 503


def history_agrees(url: str) -> None:
    """Replays the history against the locks, as an operator would."""
    done = subprocess.run(
        [sys.executable, "manage.py", "verify_audit"],
        env=os.environ | {"DATABASE_URL": url}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_acknowledged_claims_survive_the_death_of_server_and_database(database):
    server = RunningServer(database.cluster.conninfo(), {"OCTO_REQUESTS_PER_SECOND": "100000"})
    try:
        environment = os.environ | {"DATABASE_URL": server.database_url}
        subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], env=environment, check=True)
        token = create_token(environment)
        server.start()
        storm = Storm(server.port, token)
        for number, kill in enumerate((server.kill, database.kill)):
            threads = storm.run(number)
            for _ in range(300):
                assert storm.acknowledged.acquire(timeout=60)
            kill()
            for thread in threads:
                thread.join()
            if database.process.poll() is not None:
                says_unavailable(server.api(token))
                database.start()
            if server.process.poll() is not None:
                server.start()
            check(server.api(token), storm)
        history_agrees(server.database_url)
    finally:
        server.stop()
