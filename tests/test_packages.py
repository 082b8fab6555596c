"""The wheels of `make dist`, installed into an empty environment: no checkout, nothing that was forgotten."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from octoadmin.settings import VERSION
from tests.polling import until
from tests.servers import PROJECT_DIR, Api, free_port

START_SECONDS = 90

# One group: all of them use one environment.
pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]


@dataclass(frozen=True)
class Installed:
    bin: Path
    dist: Path
    # Also where commands run: no module of the checkout can be imported from there.
    directory: Path

    def run(self, command: str, *words: str, **variables: str) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.directory), **variables}
        return subprocess.run(
            [self.bin / command, *words],
            env=environment, cwd=self.directory, check=True, stdout=subprocess.PIPE, text=True,
        ).stdout  # fmt: skip


@pytest.fixture(scope="module")
def installed() -> Iterator[Installed]:
    # Not in pytest's directory, which only its owner may enter: where we are root, Postgres has another account.
    with tempfile.TemporaryDirectory(prefix="octo-packages-", ignore_cleanup_errors=True) as place:
        yield install(Path(place).resolve())


def install(directory: Path) -> Installed:
    dist, environment = directory / "dist", directory / "venv"
    subprocess.run(
        ["make", "--silent", "dist", f"DIST={dist}", f"VENV={sys.prefix}", f"--assume-old={sys.prefix}/.development"],
        cwd=PROJECT_DIR, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    venv.create(environment, symlinks=True, with_pip=False)
    locked = subprocess.run(
        [f"{sys.prefix}/bin/uv", "export", "--quiet", "--frozen", "--no-hashes", "--no-emit-local",
         "--no-emit-project"],
        cwd=PROJECT_DIR, check=True, stdout=subprocess.PIPE, text=True,
    ).stdout  # fmt: skip
    constraints = directory / "constraints.txt"
    constraints.write_text(locked)
    subprocess.run(
        [f"{sys.prefix}/bin/uv", "pip", "install", "--quiet", "--python", environment / "bin" / "python",
         "--constraint", constraints, *dist.glob("*.whl")],
        cwd=directory, check=True,
    )  # fmt: skip
    return Installed(bin=environment / "bin", dist=dist, directory=directory)


@contextmanager
def running(installed: Installed, command: str, *, pattern: str, port: int) -> Iterator[re.Match[str]]:
    """That `octoadmin` command, with its default data directory, once its output matches."""
    output = installed.directory / f"{command}.log"
    environment = {"PATH": os.environ["PATH"], "HOME": str(installed.directory), "PORT": str(port)}
    with output.open("wb") as file:
        process = subprocess.Popen(
            [installed.bin / "octoadmin", command], cwd=installed.directory, env=environment, stdout=file, stderr=file
        )
    try:

        def printed() -> re.Match[str] | None:
            matched = re.search(pattern, output.read_text())
            assert matched or process.poll() is None, output.read_text()
            return matched

        yield until(printed, pattern, timeout=START_SECONDS)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, output.read_text()


@pytest.fixture
def service(installed: Installed) -> Iterator[tuple[str, str]]:
    """URL and token of an `octoadmin up`."""
    port = free_port()
    with running(installed, "up", pattern=r"(\S+/first-run\.txt)", port=port) as printed:
        token = re.search(r"octo_\w+", Path(printed[1]).read_text())
        assert token is not None
        yield f"http://127.0.0.1:{port}", token[0]


def wait_healthy(port: int) -> None:
    def responds() -> bool:
        with suppress(OSError), closing(Api(port)) as api:
            assert api.call("GET", "/health").status == 200
            return True
        return False

    until(responds, timeout=START_SECONDS)


def test_octoadmin_serves_pages_and_octo_takes_a_lock(installed: Installed, service: tuple[str, str]) -> None:
    url, token = service
    assert (installed.directory / ".octoadmin" / "postgres").is_dir()
    installed.run("octo", "lock", "acquire", "deploy", OCTO_URL=url, OCTO_TOKEN=token)

    api = Api(int(url.rpartition(":")[2]))
    page = api.call("GET", "/ui/sign-in")
    styles = re.findall(r'href="(/static/[^"]+\.css)"', page.content.decode())
    assert page.status == 200
    assert styles
    assert [api.call("GET", path).status for path in styles] == [200] * len(styles)

    documentation = api.call("GET", "/help/index.html")
    assert documentation.status == 200
    assert b"generated/http.html" in documentation.content
    assert api.call("GET", "/help/generated/http.html").status == 200
    api.close()

    other = installed.run("octoadmin", "issue-token", "--name", "second", "--quiet").strip()
    assert "deploy" in installed.run("octo", "lock", "status", OCTO_URL=url, OCTO_TOKEN=other)
    assert "consistent: 1 leases" in installed.run("octoadmin", "verify-audit")

    # A second server on the same database.
    second = free_port()
    with running(installed, "server", pattern="", port=second):
        wait_healthy(second)
        taken = installed.run("octo", "lock", "status", OCTO_URL=f"http://127.0.0.1:{second}", OCTO_TOKEN=token)
        assert "deploy" in taken


def test_both_commands_tell_their_version(installed: Installed) -> None:
    assert installed.run("octoadmin", "--version") == f"octoadmin {VERSION}\n"
    assert installed.run("octo", "--version") == f"octo {VERSION}\n"


def bill_of_materials(installed: Installed, package: str) -> set[tuple[str, str]]:
    components = json.loads((installed.dist / f"{package}.cdx.json").read_text())["components"]
    return {(component["name"], component["version"]) for component in components}


def test_the_bill_of_materials_of_the_client_lists_its_dependencies_only(installed: Installed) -> None:
    listed = bill_of_materials(installed, "octoadmin-client")
    assert ("octoadmin-client", VERSION) in listed
    assert {"httpx", "httpcore", "certifi"} <= {name for name, _version in listed}
    assert "django" not in {name for name, _version in listed}


def test_the_bill_of_materials_lists_the_locked_dependencies(installed: Installed) -> None:
    listed = bill_of_materials(installed, "octoadmin")
    required = set(re.findall(r"^([\w.-]+)==([\w.]+)", (installed.dist / "requirements.txt").read_text(), re.MULTILINE))
    assert "django" in {name for name, _version in required}
    assert required <= listed
