"""What the guides of the client tell people to type works when they type it."""

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from octo import Client
from octo.cli.commands import COMMANDS
from octo.cli.output import ExitCode
from tests.client.guides import DOCS, blocks


@pytest.fixture
def environment(backend, tmp_path, no_namespaced_leases):
    """A shell with `octo` on the path, and nothing else that this suite has set."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "octo").symlink_to(Path(sys.executable).parent / "octo")
    return {
        **os.environ, **backend.environment, "PATH": f"{binaries}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }  # fmt: skip


@pytest.mark.timeout(180)
def test_the_guide_of_the_command_line(environment, backend, name, tmp_path):
    text = "\n".join(blocks("cli.md", "sh")).replace("http://127.0.0.1:8000", backend.url)
    text = text.replace("octo_…", backend.worker_token)
    done = subprocess.run(
        ["bash", "-euo", "pipefail"], input=text, env={**environment, "ID": name}, cwd=tmp_path,
        capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stdout + done.stderr
    assert "deploying with token 17" in done.stdout
    assert f"working on {name}-1" in done.stdout
    assert '"event": "acquired"' in done.stdout
    assert done.stdout.count("Lock renewed") == 3


def deploy_meanwhile(backend) -> None:
    """For the part that watches: something has to happen."""
    with Client(backend.url, backend.worker_token) as client:
        while watching.is_set():
            client.acquire("deploy-docs", wait=30).release()
            time.sleep(0.5)


watching = threading.Event()


@pytest.mark.timeout(120)
def test_the_guide_of_the_python_client(environment, backend, tmp_path):
    watching.set()
    deploys = threading.Thread(target=deploy_meanwhile, args=(backend,))
    deploys.start()
    try:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", "\n".join(blocks("client.md", "python"))],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
    finally:
        watching.clear()
        deploys.join()
    assert done.returncode == 0, done.stderr
    for line in ("deploying with token", "worker has it until", "step 2", "refused", "done", "working on issue-1842",
                 "agent-7", "released deploy-", "True True", "training on gpu/slot-1", "free"):  # fmt: skip
        assert line in done.stdout, line
    assert "stop!" not in done.stdout


def test_the_guide_names_every_command_and_exit_code():
    guide = (DOCS / "cli.md").read_text()
    for command in COMMANDS:
        group, _, name = command.path.rpartition(" ")
        pattern = rf"octo {group}\b.*\b{name}\b" if group else rf"octo {name}\b"
        assert re.search(pattern, guide, re.DOTALL), command.path
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", guide, re.MULTILINE)} == {code.value for code in ExitCode}
