"""What try.py and dockerfile.py share: a directory, ports, and processes that are stopped at the end."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
DEPLOY = CHECKOUT / "deploy"
START_SECONDS = 300
PORTS = ("server", "other_server", "postgres", "redis", "caddy", "caddy_http", "nginx", "nginx_http", "prometheus")


def run(*command: str | Path, **options: Any) -> str:
    """Returns what it printed; that, and its errors, end the trial if it fails."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


class Trial:
    def __init__(self, directory: Path, *, first_port: int) -> None:
        self.directory = directory
        self.ports = {name: first_port + number for number, name in enumerate(PORTS)}
        self.processes = ExitStack()
        self.password = secrets.token_urlsafe(24)
        # How this machine reaches the package index, if that is configured, and what an operator sets.
        inherited = ("PIP_", "SSL_", "HTTPS_PROXY")
        self.environment = {name: value for name, value in os.environ.items() if name.startswith(inherited)} | {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "SECRET_KEY": secrets.token_urlsafe(48),
            "CELERY_BROKER_URL": f"redis://127.0.0.1:{self.ports['redis']}/0",
            "DATABASE_URL": self.database_url("octoadmin"),
            "PORT": str(self.ports["server"]),
        }

    def database_url(self, name: str) -> str:
        return f"postgresql://octoadmin:{self.password}@127.0.0.1:{self.ports['postgres']}/{name}"

    def run(self, *command: str | Path, cwd: Path | None = None, **variables: str) -> str:
        return run(*command, cwd=cwd or self.directory, env=self.environment | variables)

    def start(self, log: str, *command: str | Path, **variables: str) -> ExitStack:
        """Closing what it returns stops the process; otherwise the end of the trial does."""
        with (self.directory / f"{log}.log").open("ab") as file:
            process = subprocess.Popen(
                [*map(str, command)], cwd=self.directory, env=self.environment | variables, stdout=file, stderr=file,
                process_group=0,
            )  # fmt: skip
        running = self.processes.enter_context(ExitStack())
        running.callback(stop, process)
        return running

    def logs(self) -> str:
        """The end of each, for a trial that failed."""
        paths = sorted(self.directory.glob("*.log"))
        return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in paths)


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Its group: a command that waits for another does not pass signals on."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
            return


@contextmanager
def trial(*, first_port: int, keep: bool) -> Iterator[Trial]:
    directory = Path(tempfile.mkdtemp(prefix="octo-try-"))
    # PostgreSQL runs as another account if this is root.
    directory.chmod(0o755)
    attempt = Trial(directory, first_port=first_port)
    # Stopped, it stops what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    try:
        yield attempt
    except BaseException:
        print(attempt.logs(), flush=True)
        raise
    finally:
        attempt.processes.close()
        if keep:
            print(f"Kept {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def step(title: str) -> Iterator[Callable[[str], None]]:
    started = time.monotonic()
    results: list[str] = []
    yield results.append
    print(f"ok  {title} ({time.monotonic() - started:.0f} s)", *results, sep=": ", flush=True)


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 -- an address of ours
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def wait_until(check: Callable[[], Any], what: str) -> Any:
    """Returns what the check returned."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError):
            if found := check():
                return found
        time.sleep(0.2)
    raise SystemExit(f"{what}: not within {START_SECONDS} s")


def start_postgres_and_redis(attempt: Trial) -> str:
    binaries = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    attempt.environment["PATH"] = f"{binaries}:{attempt.environment['PATH']}"
    data, password = attempt.directory / "postgres", attempt.directory / "password"
    data.mkdir()
    password.write_text(attempt.password)
    as_owner: tuple[str, ...] = ()
    if os.getuid() == 0:
        # PostgreSQL refuses to run as root.
        as_owner = ("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups")
        for path in (data, password):
            shutil.chown(path, "postgres")
    attempt.run(
        *as_owner,
        "initdb",
        "--pgdata",
        data,
        "--username",
        "octoadmin",
        "--pwfile",
        password,
        "--auth",
        "scram-sha-256",
    )
    password.unlink()
    options = {"port": attempt.ports["postgres"], "listen_addresses": "127.0.0.1", "unix_socket_directories": data}
    attempt.start(
        "postgres", *as_owner, "postgres", "-D", data,
        *(word for name, value in options.items() for word in ("-c", f"{name}={value}")),
    )  # fmt: skip
    port = str(attempt.ports["redis"])
    attempt.start("redis", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "")
    server = attempt.database_url("postgres")
    ready = (binaries / "pg_isready", "--quiet", "--dbname", server)
    wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, "PostgreSQL")
    create_database(attempt, "octoadmin")
    return attempt.run("psql", "--tuples-only", "--no-align", server, "--command", "SHOW server_version").strip()


def create_database(attempt: Trial, name: str) -> None:
    create = f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0"
    attempt.run("psql", "--quiet", attempt.database_url("postgres"), "--command", create)


def wait_until_healthy(port: int) -> None:
    """With a worker that responds too, through Redis, if the release says so in /health."""

    def healthy() -> bool:
        status, body = get(f"http://127.0.0.1:{port}/health")
        return status == 200 and json.loads(body).get("worker", "ok") == "ok"

    wait_until(healthy, f"server and worker at port {port}")
