"""`up`: starts all processes of Octoadmin in order, stays in the foreground and stops them together."""

import hashlib
import http.client
import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.db import connection

from octoadmin.environment import PROJECT_DIR, Environment
from octoadmin.run import banner, database
from octoadmin.run.postgres import Cluster
from octoadmin.run.preflight import CannotStart, check_host, check_port, lock_directory, url_of
from octoadmin.run.supervisor import ChildDied, SignalHandler, StopRequested, Supervisor

SERVING_SECONDS = 60.0


def run(environment: Environment, *, stop_with_parent: bool = False) -> int:
    """Returns the exit code: 0 after a requested stop."""
    signals = SignalHandler()
    try:
        check_host(environment.host)
        url = url_of(host=environment.host, port=environment.port)
        lock = lock_directory(environment.data_dir, url=url)
        check_port(host=environment.host, port=environment.port)
        with Supervisor(lock=lock, signals=signals, stop_with_parent=stop_with_parent, report=_print) as supervisor:
            try:
                _start(supervisor, environment, url=url)
                supervisor.watch()
            except StopRequested:
                _print("Stopping.")
            except (CannotStart, ChildDied):
                raise
            except Exception:
                # The cause may be a child that died; that is the better message.
                supervisor.check()
                raise
    except StopRequested:
        return 0
    except CannotStart as error:
        _print(str(error))
        return 1
    except ChildDied as death:
        _print(f"{death}, so everything was stopped. The lines above say more.")
        return 1
    return 0


def _start(supervisor: Supervisor, environment: Environment, *, url: str) -> None:
    if environment.embedded:
        _print("Starting PostgreSQL.")
        directory = environment.data_dir
        database.EmbeddedDatabase(
            cluster=Cluster(directory=directory / "postgres"), log=directory / "logs" / "postgres.log"
        ).start(supervisor)
    else:
        database.check_database(environment.database_url)
    database.check_migration_history()
    if database.needs_migration():
        _print("Migrating the database.")
        database.migrate()
    collect_static_files(stamp=environment.data_dir / "static.stamp")
    if not environment.celery_broker_url:
        empty_queue(settings.QUEUE_DIR)
    connection.close()

    _print("Starting the server and the worker.")
    supervisor.start("The server", [sys.executable, "-m", "octoadmin.run.server"])
    wait_serving(supervisor, url)
    # After the server, whose start would take longer with the worker on the same cores.
    supervisor.start("The Celery worker", [sys.executable, "-m", "octoadmin.run.worker"])

    from locks import bootstrap

    # Created and printed without interruption, and only when all runs: what is shown once must not get lost.
    with supervisor.signals.held():
        created = bootstrap.create_initial_data()
        data = environment.data_dir
        if created is None:
            text = banner.running(url=url, data=data)
        else:
            text = banner.first_run(url=url, data=data, created=created)
            if not sys.stdout.isatty():
                # It may be a log that others can read.
                text = banner.running(url=url, data=data, secrets=_save(data / "first-run.txt", text))
        sys.stdout.write(text)
        sys.stdout.flush()
    connection.close()


def _save(path: Path, text: str) -> Path:
    """In a file that only its owner can read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return path


def collect_static_files(*, stamp: Path) -> None:
    """Only when a source has changed: it takes seconds."""
    sources = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list([]):
            state = Path(storage.path(name)).stat()
            sources.update(f"{name}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    digest = sources.hexdigest()
    if stamp.exists() and stamp.read_text() == digest and Path(settings.STATIC_ROOT).exists():
        return
    _print("Preparing the static files.")
    call_command("collectstatic", interactive=False, verbosity=0)
    stamp.write_text(digest)


def empty_queue(queue: Path) -> None:
    """The schedule runs every task again, so those of the last run are of no use."""
    shutil.rmtree(queue, ignore_errors=True)
    queue.mkdir(mode=0o700, exist_ok=True)


def continue_as(module: str) -> NoReturn:
    """This process goes on as the one that `up` would start: a fresh interpreter, without Django's modules."""
    os.chdir(PROJECT_DIR)
    os.execv(sys.executable, [sys.executable, "-m", module])  # noqa: S606


def wait_serving(supervisor: Supervisor, url: str) -> None:
    address = urlsplit(url)
    deadline = time.monotonic() + SERVING_SECONDS
    answer = "no response yet"
    while time.monotonic() < deadline:
        supervisor.check()
        asking = http.client.HTTPConnection(address.hostname or "", address.port, timeout=5)
        try:
            asking.request("GET", "/health")
            response = asking.getresponse()
            if response.status == http.HTTPStatus.OK:
                return
            answer = f"{response.status} {response.read(300).decode(errors='replace')}"
        except (OSError, http.client.HTTPException) as error:
            answer = str(error)
        finally:
            asking.close()
        time.sleep(0.05)
    raise CannotStart(
        f"The server did not become healthy within {SERVING_SECONDS:.0f} s; {url}/health answered: {answer}. "
        "The lines above may say why."
    )


def _print(sentence: str) -> None:
    with suppress(OSError):  # The terminal may be gone; stopping goes on.
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()
