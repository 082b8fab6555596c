"""`manage.py up` with real processes: what it prints, how it stops, and that nothing ever stays behind."""

import http.client
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest

from octoadmin.run.postgres import Cluster
from tests.polling import until
from tests.servers import Api, free_port

PROJECT = Path(__file__).resolve().parents[3]
SERVING = "Ctrl-C stops everything."
STARTING_SECONDS = 60
# Five are promised; the rest is for a machine that runs other tests beside this one.
STOPPING_SECONDS = 15
OURS = ("DATABASE_URL", "CELERY_BROKER_URL", "SECRET_KEY", "HOST", "ALLOWED_HOSTS", "LOG_FORMAT", "DEBUG")

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("up")]


def processes_of(data: Path) -> list[psutil.Process]:
    """Every process of an `up` on that directory, orphans too: they inherit OCTO_DATA_DIR or work in it."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            told, directory = process.environ().get("OCTO_DATA_DIR"), Path(process.cwd())
            if told == str(data) or directory.is_relative_to(data):
                found.append(process)
    return found


def people_in(data: Path) -> list[tuple[object, ...]]:
    with psycopg.connect(Cluster(directory=data / "postgres").conninfo()) as connection:
        return connection.execute("SELECT id, username, password FROM octo_user").fetchall()


@dataclass(kw_only=True)
class Up:
    """One `manage.py up`, or a parent of one."""

    process: "subprocess.Popen[bytes]"
    data: Path
    port: int
    output: Path
    errors: Path

    @property
    def stdout(self) -> str:
        return self.output.read_text()

    @property
    def stderr(self) -> str:
        return self.errors.read_text()

    def wait_for(self, words: str) -> None:
        def printed() -> bool:
            found = words in self.stdout + self.stderr
            assert found or self.process.poll() is None, f"it ended: {self.stderr}"
            return found

        until(printed, f"{words!r} is printed", timeout=STARTING_SECONDS)

    def health(self) -> int:
        with closing(Api(self.port)) as api:
            return api.call("GET", "/health").status

    def responds(self) -> int | None:
        try:
            return self.health()
        except (OSError, http.client.HTTPException):
            return None

    def children(self, word: str) -> list[psutil.Process]:
        """The children with that word in the command line."""
        found = []
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.Error):
                if word in " ".join(child.cmdline()):
                    found.append(child)
        return found

    def child(self, word: str) -> psutil.Process:
        (child,) = self.children(word)
        return child

    def failed_to_start(self) -> bool:
        """Once it has ended, by itself and in order, and all that belonged to it has."""
        self.process.wait(STARTING_SECONDS)
        return self.ended() == 1

    def ended(self) -> int:
        """The exit code, once it has ended and all that belonged to it has."""
        code = self.process.wait(STOPPING_SECONDS)
        until(lambda: not processes_of(self.data), "its processes have ended", timeout=STOPPING_SECONDS)
        return code


def start(data: Path, *, port: int | None = None, command: list[str] | None = None, **environment: str) -> Up:
    port = port or free_port()
    logs = data.with_name(f"{data.name}.logs")
    logs.mkdir(exist_ok=True)
    number = len(list(logs.iterdir()))
    output, errors = logs / f"{number}.out", logs / f"{number}.err"
    inherited = {name: value for name, value in os.environ.items() if name not in OURS}
    with output.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen(
            command or [sys.executable, "manage.py", "up"],
            cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=out, stderr=err, process_group=0,
            env={**inherited, "OCTO_DATA_DIR": str(data), "PORT": str(port), **environment},
        )  # fmt: skip
    return Up(process=process, data=data, port=port, output=output, errors=errors)


@contextmanager
def new_directory() -> Iterator[Path]:
    """A data directory; whatever a failing test leaves running on it ends with it.

    Not pytest's tmp_path: every other pytest that starts on the machine closes that to all accounts but ours,
    and where we are root, Postgres has another.
    """
    with tempfile.TemporaryDirectory(prefix="octo-up-", ignore_cleanup_errors=True) as place:
        data = Path(place).resolve() / "data"
        try:
            yield data
        finally:
            for process in processes_of(data):
                with suppress(psutil.NoSuchProcess):
                    process.kill()


@pytest.fixture
def data() -> Iterator[Path]:
    with new_directory() as directory:
        yield directory


@dataclass
class Stage:
    """One data directory for the whole module, and the `up` that is running on it now."""

    data: Path
    running: Up
    first_words: str
    people: list[tuple[object, ...]]

    def restart(self) -> Up:
        self.running = start(self.data)
        self.running.wait_for(SERVING)
        return self.running


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with new_directory() as directory:
        first = start(directory)
        first.wait_for(SERVING)
        people = people_in(directory)
        assert len(people) == 1
        stage = Stage(data=directory, running=first, first_words=first.stdout, people=people)
        yield stage
        stage.running.process.terminate()
        stage.running.ended()


@pytest.fixture
def running(stage: Stage) -> Up:
    """The `up` that the test before has left running, or a new one on the same data."""
    return stage.running if stage.running.process.poll() is None else stage.restart()


def test_the_first_run_saves_all_that_is_needed_to_take_a_lock(stage: Stage) -> None:
    """On a terminal it is printed; this output is a file, which others may be able to read."""
    saved = stage.data / "first-run.txt"
    assert saved.stat().st_mode & 0o777 == 0o600
    assert f"Sign in     {saved} has" in stage.first_words
    assert "octo_" not in stage.first_words
    words = saved.read_text()
    (token,) = set(re.findall(r"octo_[0-9A-Za-z]+_[0-9A-Za-z]+", words))
    assert re.search(r"Sign in +admin +\S{12,}", words)
    (curl,) = [line for line in words.splitlines() if line.startswith("curl ")]
    url = re.search(r"Dashboard +(http://127\.0\.0\.1:\d+)\n", words)
    assert url is not None
    assert shlex.split(curl)[:4] == ["curl", "-X", "POST", f"{url[1]}/locks/deploy-main/acquire"]
    assert f"Authorization: Bearer {token}" in shlex.split(curl)


def test_it_serves_when_it_prints_the_banner(running: Up) -> None:
    assert running.health() == 200


def test_the_log_of_postgres_is_private_and_has_no_literals_of_statements(stage: Stage, running: Up) -> None:
    cluster = Cluster(directory=stage.data / "postgres")
    with psycopg.connect(cluster.conninfo()) as connection, pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1 / 0, 'a digest'")
    log = stage.data / "logs" / "postgres.log"
    assert "division by zero" in log.read_text()
    assert "a digest" not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_signal_stops_everything_and_a_later_run_shows_no_secret(
    stage: Stage, running: Up, number: signal.Signals
) -> None:
    running.process.send_signal(number)
    assert running.ended() == 0
    again = stage.restart()
    assert again.health() == 200
    assert f"http://127.0.0.1:{again.port}\n" in again.stdout
    assert str(stage.data) in again.stdout
    assert "octo_" not in again.stdout + again.stderr
    assert "Sign in" not in again.stdout


@pytest.mark.long
def test_ctrl_c_twice_stops_at_once_and_loses_nothing(stage: Stage, running: Up) -> None:
    running.process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    running.process.send_signal(signal.SIGINT)
    assert running.ended() == 0
    stage.restart()
    assert people_in(stage.data) == stage.people


@pytest.mark.parametrize(
    ("killed", "name", "unharmed"),
    [
        ("octoadmin.run.server", "The server", ("octoadmin.run.worker", "bin/postgres")),
        pytest.param(
            "octoadmin.run.worker",
            "The Celery worker",
            ("octoadmin.run.server", "bin/postgres"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            "bin/postgres", "PostgreSQL", ("octoadmin.run.server", "octoadmin.run.worker"), marks=pytest.mark.long
        ),
    ],
)
def test_a_child_that_is_killed_is_restarted_and_the_others_run_on(
    stage: Stage, running: Up, killed: str, name: str, unharmed: tuple[str, str]
) -> None:
    first, others = running.child(killed), [running.child(other) for other in unharmed]
    first.kill()
    running.wait_for(f"{name} ended (killed by SIGKILL). It is restarted")
    until(lambda: running.children(killed), f"another {killed}")
    until(lambda: running.responds() == 200, "the server and its database respond")
    assert running.child(killed) != first
    assert [running.child(other) for other in unharmed] == others
    assert people_in(stage.data) == stage.people


@pytest.mark.long
def test_a_child_that_keeps_dying_is_restarted_ever_later(running: Up) -> None:
    """And the server responds meanwhile."""

    def delays() -> list[int]:
        told = re.findall(r"The Celery worker ended .* is restarted (?:in (\d+) s|now)", running.stderr)
        return [int(seconds or 0) for seconds in told]

    before = len(delays())
    for number in range(before, before + 3):
        until(lambda: running.children("octoadmin.run.worker"), "a worker")[0].kill()
        until(lambda number=number: len(delays()) > number, "its end was noticed")
    assert delays()[-3:] == sorted(set(delays()[-3:]))
    assert running.responds() == 200


@pytest.mark.long
def test_everything_stops_when_the_reaper_is_killed_and_the_next_run_has_the_data(stage: Stage, running: Up) -> None:
    running.child("reaper.py").kill()
    assert running.ended() == 1
    assert "The reaper process ended (killed by SIGKILL)" in running.stderr
    stage.restart()
    assert people_in(stage.data) == stage.people


@pytest.mark.long
def test_a_database_that_cannot_start_again_ends_everything(stage: Stage, running: Up) -> None:
    control = stage.data / "postgres" / "global" / "pg_control"
    hidden = control.rename(control.with_name("hidden"))
    running.child("bin/postgres").kill()
    try:
        assert running.ended() == 1
    finally:
        hidden.rename(control)
    assert "PostgreSQL ended and did not start again" in running.stderr
    assert "Traceback" not in running.stderr
    stage.restart()
    assert people_in(stage.data) == stage.people


def lives(process: psutil.Process) -> bool:
    """Orphans have ended when they are zombies; when those are cleared away is up to the machine's first process."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.long
def test_no_process_stays_when_up_is_killed_and_the_next_run_waits_for_that(stage: Stage, running: Up) -> None:
    before = processes_of(stage.data)
    running.process.kill()
    running.process.wait()
    stage.restart()
    assert not [process for process in before if lives(process)]
    assert people_in(stage.data) == stage.people


@pytest.mark.long
def test_it_stops_when_its_parent_was_killed(stage: Stage) -> None:
    stage.running.process.terminate()
    stage.running.ended()
    make = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])"]
    up = start(stage.data, command=[*make, sys.executable, "manage.py", "up", "--stop-with-parent"])
    up.wait_for(SERVING)
    up.process.kill()
    assert up.ended() == -signal.SIGKILL


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "Starting PostgreSQL."),
        (signal.SIGTERM, "Migrating the database"),
        (signal.SIGHUP, "Preparing the static files."),
    ],
)
def test_a_signal_is_honoured_while_it_is_still_starting(data: Path, number: signal.Signals, moment: str) -> None:
    up = start(data)
    up.wait_for(moment)
    up.process.send_signal(number)
    assert up.ended() == 0
    assert "Traceback" not in up.stderr


def test_a_second_up_on_the_same_data_is_rejected_and_names_the_first(running: Up) -> None:
    second = start(running.data)
    assert second.process.wait(STARTING_SECONDS) == 1
    assert f"process {running.process.pid}, http://127.0.0.1:{running.port}" in second.stderr
    assert "OCTO_DATA_DIR" in second.stderr
    assert second.stderr.count("\n") == 1
    assert running.health() == 200


def test_a_taken_port_is_named_before_anything_is_started(data: Path, running: Up) -> None:
    up = start(data, port=running.port)
    assert up.failed_to_start()
    assert f"Port {running.port} on 127.0.0.1 is taken" in up.stderr
    assert f"PORT={running.port + 1}" in up.stderr
    assert up.stderr.count("\n") == 1
    assert not (data / "postgres").exists()


def test_an_unreachable_database_is_reported_without_the_password(data: Path) -> None:
    up = start(
        data,
        DATABASE_URL=f"postgresql://octo:kept-secret@127.0.0.1:{free_port()}/octo",
        SECRET_KEY="x" * 50,
    )
    assert up.failed_to_start()
    assert "Connection refused" in up.stderr
    assert "Set DATABASE_URL" in up.stderr
    assert "kept-secret" not in up.stderr
    assert "Traceback" not in up.stderr


def test_a_broken_cluster_is_reported_with_its_log(data: Path) -> None:
    """Quick to make: a file that says it is a cluster, and nothing else."""
    (data / "postgres").mkdir(parents=True)
    (data / "postgres" / "PG_VERSION").write_text("18\n")
    if os.geteuid() == 0:
        shutil.chown(data / "postgres", "nobody")
    (data / "postgres").chmod(0o700)
    up = start(data)
    assert up.failed_to_start()
    assert "The embedded PostgreSQL did not start" in up.stderr
    assert str(data / "logs" / "postgres.log") in up.stderr
    assert "Traceback" not in up.stderr


def test_an_address_of_another_machine_is_rejected(data: Path) -> None:
    up = start(data, HOST="192.0.2.1")
    assert up.failed_to_start()
    assert "HOST=192.0.2.1 is not an address of this machine" in up.stderr
