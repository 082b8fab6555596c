"""The shell lines that people know from another lock tool work with `octo` in its place."""

import json
import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest


def unix_ms(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)


needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="these lines pipe into jq")


@pytest.fixture
def shell(backend, tmp_path, no_namespaced_leases):
    """Runs lines in bash, as if typed in one terminal, with `octo` on the path."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "octo").symlink_to(Path(sys.executable).parent / "octo")
    environment = {
        **os.environ, **backend.environment, "PATH": f"{binaries}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"), "OCTO_HOLDER": "one terminal",
    }  # fmt: skip

    def run(lines: str, *, code: int = 0, **variables: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            ["bash", "-u"], input=lines, env={**environment, **variables}, cwd=tmp_path, capture_output=True,
            text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done

    return run


@pytest.fixture
def other(shell):
    """Another person's shell: the same server, another state."""

    def run(lines: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return shell(lines, XDG_STATE_HOME="/nonexistent/so/nothing/is/remembered", **variables)

    return run


def test_acquire_renew_and_release(shell, name):
    done = shell('octo lock acquire --resource "issue:$ID" --ttl 30m', ID=name)
    assert done.stdout.startswith(f"Lock acquired\n  Resource: issue:{name}\n")
    assert "  Expires: 20" in done.stdout
    assert " UTC\n" in done.stdout
    conflict = shell('octo lock acquire --resource "issue:$ID" --ttl 30m', ID=name, code=4)
    assert conflict.stderr.startswith(f"Error: Lock conflict\n  Resource: issue:{name}\n  Owner: worker\n")
    assert conflict.stdout == ""
    shell('octo lock renew --resource "issue:$ID" --ttl 30m', ID=name)
    status = shell("octo lock status")
    assert status.stdout.startswith("Active Locks:\n")
    assert "expires in 29m" in next(line for line in status.stdout.splitlines() if name in line)
    shell('octo lock release --resource "issue:$ID"', ID=name)
    shell("octo lock gc")


@pytest.mark.parametrize("ttl", ["15m", "1h", "30s", "90", "1h30m"])
def test_how_long(shell, name, ttl):
    seconds = {"15m": 900, "1h": 3600, "30s": 30, "90": 90, "1h30m": 5400}[ttl]
    done = shell('octo lock acquire --resource "$NAME" --ttl "$TTL" --json', NAME=name, TTL=ttl)
    lock = json.loads(done.stdout)["data"]["lock"]
    status = json.loads(shell('octo lock status --resource "$NAME" --json', NAME=name).stdout)["data"]["locks"][0]
    assert lock["expires_unix_ms"] == status["expires_unix_ms"]
    assert abs(lock["expires_unix_ms"] - unix_ms(status["acquired_at"]) - seconds * 1000) < 1000


def test_json(shell, name):
    acquired = json.loads(shell('octo lock acquire --resource "path:$NAME" --ttl 1h --json', NAME=name).stdout)
    assert (acquired["schema_version"], acquired["ok"]) == (1, True)
    assert {"resource", "owner", "nonce", "expires_unix_ms"} <= set(acquired["data"]["lock"])
    status = json.loads(shell("octo lock status --json").stdout)["data"]
    assert status["conflicts"] == []
    assert f"path:{name}" in [lock["resource"] for lock in status["locks"]]


@needs_jq
def test_claiming_an_issue(shell, name):
    lines = """
    if octo lock acquire --resource "issue:$ID" --ttl 30m --json | jq -e '.ok'; then
      echo "Claimed issue $ID"
      octo lock release --resource "issue:$ID"
    else
      echo "Issue already claimed"
    fi
    """
    assert f"Claimed issue {name}" in shell(lines, ID=name).stdout
    shell('octo lock acquire "issue:$ID"', ID=name)
    assert "Issue already claimed" in shell(lines, ID=name).stdout


def test_a_long_task_renews(shell, name):
    lines = """
    octo lock acquire --resource "repo:$NAME" --ttl 2h
    left=2
    migration_in_progress() { [ $left -gt 0 ]; }
    while migration_in_progress; do
      sleep 0.1
      octo lock renew --resource "repo:$NAME" --ttl 2h
      left=$((left - 1))
    done
    octo lock release --resource "repo:$NAME"
    """
    printed = shell(lines, NAME=name).stdout
    assert [printed.count(word) for word in ("Lock acquired", "Lock renewed", "Lock released")] == [1, 2, 1]


def test_the_coordinator_and_its_workers(shell, client, name):
    client.acquire(f"issue:{name}-1", ttl=60)
    lines = """
    for id in "$NAME-1" "$NAME-2" "$NAME-3"; do
      if octo lock acquire --resource "issue:$id" --ttl 30m 2>/dev/null; then
        echo "processing $id"
        octo lock release --resource "issue:$id"
        break
      fi
    done
    """
    printed = shell(lines, NAME=name).stdout
    assert f"processing {name}-2" in printed
    assert "processing" in printed
    assert f"processing {name}-3" not in printed


@needs_jq
def test_taking_over_what_has_run_out(shell, name):
    lines = r"""
    if ! octo lock status --json | jq -e ".data.locks[] | select(.resource == \"$RESOURCE\")"; then
      octo lock acquire --resource "$RESOURCE" --ttl 30m
    fi
    """
    assert "Lock acquired" in shell(lines, RESOURCE=name).stdout
    assert "Lock acquired" not in shell(lines, RESOURCE=name).stdout


def test_a_trap_releases_whatever_happens(shell, client, name):
    lines = """
    trap 'octo lock release --resource "issue:$ID"' EXIT
    octo lock acquire --resource "issue:$ID" --ttl 30m
    exit 3
    """
    assert "Lock released" in shell(lines, ID=name, code=3).stdout
    assert client.inspect(f"issue:{name}").status == "free"


def test_failing_gracefully(shell, client, name):
    client.acquire(name, ttl=60)
    lines = """
    if ! octo lock acquire --resource "$NAME" --ttl 30m; then
      echo "Could not acquire lock, trying later"
      exit 0
    fi
    """
    assert shell(lines, NAME=name).stdout == "Could not acquire lock, trying later\n"


def test_only_the_owner_renews(shell, other, name):
    shell('octo lock acquire "$NAME"', NAME=name)
    refused = other('octo lock renew --resource "$NAME"; echo $?', NAME=name)
    assert refused.stdout == "3\n"
    assert "No lease" in refused.stderr
