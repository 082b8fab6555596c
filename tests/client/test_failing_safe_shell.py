"""A saved lease belongs to the shell that acquired it, and commands do not mix up who holds what."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.polling import until

RECIPE = """
trap 'octo lock release "$NAME"; echo "released: $?" >> {log}' EXIT
octo lock acquire "$NAME" --ttl 30m || exit 0
touch {held}
while ! test -e {go}; do sleep 0.05; done
"""


@pytest.fixture
def scripts(octo, name, tmp_path):
    """Scripts of one user, with one state directory, each a shell of its own."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "octo").symlink_to(Path(sys.executable).parent / "octo")
    environment = {**octo._environment({}), "PATH": f"{binaries}:{os.environ['PATH']}", "NAME": name}

    def start(lines: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            ["bash", "-c", lines], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        octo.started.append(process)
        return process

    return start


def test_the_recipe_of_the_guide_keeps_others_out(scripts, client, name, tmp_path):
    """Release on exit, whatever happens. The second job finds the lock held; its trap must not release the first's."""
    paths = {word: tmp_path / word for word in ("log", "held", "go")}
    first = scripts(RECIPE.format(**paths))
    until(lambda: paths["held"].exists() or first.poll() is not None)
    assert first.poll() is None
    fencing_token = client.inspect(name).fencing_token
    second = scripts(RECIPE.format(**paths))
    assert second.wait(30) == 0
    assert paths["log"].read_text() == "released: 3\n"
    still = client.inspect(name)
    assert (still.status, still.fencing_token) == ("held", fencing_token)
    paths["go"].touch()
    assert first.wait(30) == 0
    assert paths["log"].read_text() == "released: 3\nreleased: 0\n"
    assert client.inspect(name).status == "free"


def test_a_holder_can_be_named(octo, name):
    """For jobs whose steps run in shells of their own."""
    assert octo.run("lock", "acquire", name, "--holder", "job-1").returncode == 0
    assert octo.run("lock", "release", name).returncode == 3
    assert octo.run("lock", "release", name, OCTO_HOLDER="job-2").returncode == 3
    assert octo.run("lock", "renew", name, OCTO_HOLDER="job-1").returncode == 0
    assert octo.run("lock", "release", name, OCTO_HOLDER="job-1").returncode == 0


@pytest.mark.parametrize("group", ["lock", "jobs"])
def test_a_release_that_did_not_arrive_is_not_forgotten(octo, proxy, client, name, group):
    octo.json("lock", "acquire", name, OCTO_URL=proxy.url)
    proxy.go_down()
    assert octo.run(group, "release", name, OCTO_URL=proxy.url).returncode == 5
    proxy.recover()
    assert octo.run(group, "release", name, OCTO_URL=proxy.url).returncode == 0
    assert client.inspect(name).status == "free"


def test_waiting_for_no_time_is_not_waiting_for_ever(octo, client, name):
    client.acquire(name, ttl=60)
    assert octo.run("run", name, "--on-held", "wait", "--wait", "0", "--", "true").returncode == 4


def test_run_answers_in_json(octo, client, name):
    done = octo.run("run", name, "--json", "--", "sh", "-c", "exit 3")
    envelope = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, envelope["ok"], envelope["data"]["run"]["exit_code"]) == (3, True, 3)
    client.acquire(name, ttl=60, owner="agent-7")
    refused = octo.run("run", name, "--json", "--", "true")
    error = json.loads(refused.stdout)["error"]
    assert (refused.returncode, refused.stderr) == (4, "")
    assert (error["code"], error["owner"]) == ("held", "agent-7")


def test_a_conflict_can_have_a_code_that_the_command_never_has(octo, client, name):
    assert octo.run("run", name, "-E", "75", "--", "sh", "-c", "exit 4").returncode == 4
    client.acquire(name, ttl=60)
    assert octo.run("run", name, "-E", "75", "--", "true").returncode == 75
    assert octo.run("run", name, "--conflict-exit-code", "75", "--wait", "1", "--", "true").returncode == 75
