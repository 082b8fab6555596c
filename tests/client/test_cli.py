"""The commands: what they print, where they print it, and how they end."""

import json
import os
import pty
import subprocess
import threading

import pytest

from octo.cli.commands import COMMANDS
from tests.client.command_line import OCTO, eventually


def test_the_state_file_is_for_its_owner_only(octo, name, tmp_path):
    octo.json("lock", "acquire", name)
    file = tmp_path / "state" / "octo" / "leases.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    file.chmod(0o644)
    refused = octo.run("lock", "release", name)
    assert refused.returncode == 5
    assert "chmod 600" in refused.stderr


def test_many_commands_at_once_all_remember(octo, name):
    threads = [threading.Thread(target=octo.run, args=("lock", "acquire", f"{name}-{number}")) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(6):
        assert octo.run("lock", "release", f"{name}-{number}").returncode == 0


def test_leases_are_remembered_for_each_server_and_token(octo, backend, name):
    octo.json("lock", "acquire", name)
    other = octo.run("lock", "release", name, OCTO_TOKEN=backend.operator_token)
    assert other.returncode == 3
    assert octo.run("lock", "release", name).returncode == 0


def test_a_lease_id_overrides_what_is_remembered(octo, client, name):
    lease = client.acquire(name, ttl=30)
    assert octo.run("lock", "renew", name, "--lease-id", lease.lease_id, "--ttl", "1m").returncode == 0
    assert octo.run("lock", "release", name, "--lease-id", lease.lease_id).returncode == 0
    gone = octo.json("lock", "release", name, "--lease-id", lease.lease_id)
    assert gone["code"] == "lease_not_current"


def test_a_lost_lease_is_told_and_forgotten(octo, operator, name):
    octo.json("lock", "acquire", name)
    operator.force_release(name, reason="gone")
    assert octo.run("lock", "renew", name).returncode == 8
    assert octo.run("lock", "renew", name).returncode == 3


@pytest.mark.parametrize(
    ("words", "environment", "code", "exit_code"),
    [
        (("lock", "acquire", "../etc"), {}, "invalid_lock_name", 2),
        (("lock", "acquire", "a", "--ttl", "0"), {}, "invalid_ttl", 2),
        (("lock", "acquire", "a", "--ttl", "soon"), {}, "usage", 2),
        (("lock", "acquire"), {}, "usage", 2),
        (("lock", "acquire", "a", "--resource", "b"), {}, "usage", 2),
        (("lock", "nonsense"), {}, "usage", 2),
        (("lock", "release", "never-acquired"), {}, "not_remembered", 3),
        (("lock", "status"), {"OCTO_TOKEN": "wrong"}, "authentication_failed", 7),
        (("lock", "history", "a"), {}, "forbidden", 7),
        (("lock", "force-release", "a", "--reason", "gone"), {}, "forbidden", 7),
        (("lock", "status"), {"OCTO_URL": "http://octo.example.com"}, "configuration", 5),
        (("lock", "status"), {"OCTO_URL": "http://127.0.0.1:1"}, "unreachable", 5),
        (("lock", "status"), {"OCTO_TOKEN": "", "OCTO_TOKEN_FILE": "/nonexistent"}, "configuration", 5),
    ],
)
def test_every_kind_of_failure_has_its_exit_code(octo, words, environment, code, exit_code):
    done = octo.run(*words, "--json", **environment)
    envelope = json.loads(done.stdout)
    assert (envelope["schema_version"], envelope["ok"], envelope["error"]["code"]) == (1, False, code)
    assert (done.returncode, done.stderr) == (exit_code, "")


def test_errors_are_on_standard_error(octo):
    done = octo.run("lock", "release", "never-acquired")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("Error: ")


def test_looking_at_one_lock(octo, client, name):
    assert octo.run("lock", "status", name).stdout == f"{name} is free\n"
    client.acquire(name, ttl=1500, owner="agent-7\x1b[2J", metadata="build=1842")
    shown = octo.run("lock", "status", name).stdout
    assert "Owner: agent-7\N{REPLACEMENT CHARACTER}[2J\n" in shown
    assert "build=1842" in shown
    listed = octo.run("lock", "list", "--prefix", name).stdout.splitlines()
    assert listed[0].split() == ["NAME", "OWNER", "HELD", "FOR", "EXPIRES", "IN", "WAITING", "METADATA"]
    assert listed[1].startswith(name)
    assert octo.run("lock", "list", "--prefix", name, "--names").stdout == f"{name}\n"


def test_a_conflict_is_a_lock_we_remember_that_others_have(octo, client, operator, name):
    octo.json("lock", "acquire", name, "--ttl", "1h")
    assert octo.json("lock", "status", name)["conflicts"] == []
    operator.force_release(name, reason="gone")
    client.acquire(name, owner="agent-8")
    assert [lock["owner"] for lock in octo.json("lock", "status", name)["conflicts"]] == ["agent-8"]


def test_a_list_that_refreshes(octo, client, name):
    listing = octo.start("lock", "list", "--watch", "--json", "--prefix", name)
    assert json.loads(listing.stdout.readline())["data"]["locks"] == []
    client.acquire(name, ttl=60)
    assert json.loads(listing.stdout.readline())["data"]["locks"][0]["resource"] == name
    listing.terminate()


def test_releasing_by_force(octo, client, backend, name):
    client.acquire(name, ttl=60, owner="agent-7")
    as_operator = {"OCTO_TOKEN": backend.operator_token}
    assert octo.json("lock", "force-release", name, "--reason", "gone", "--fencing-token", "1", **as_operator)[
        "code"
    ] == ("conflict")
    done = octo.json("lock", "force-release", name, "--reason", "gone", **as_operator)
    assert done["lock"]["previous"]["owner"] == "agent-7"
    history = octo.run("lock", "history", name, **as_operator).stdout.splitlines()
    assert ["force_released" in history[0], "acquired" in history[1]] == [True, True]
    assert "gone" in history[0]


def test_watching(octo, client, name):
    watch = octo.start("lock", "watch", name, "--limit", "3")
    assert "free" in watch.stdout.readline()
    client.acquire(name, ttl=60, owner="agent-7").release()
    assert "acquired" in watch.stdout.readline()
    assert "released" in watch.stdout.readline()
    assert watch.wait(20) == 0


def test_claiming_the_next(octo, client, name):
    client.acquire(f"{name}-1", ttl=60)
    assert octo.json("claim-next", f"{name}-1", f"{name}-2")["lock"]["resource"] == f"{name}-2"
    assert octo.run("claim-next", f"{name}-1", f"{name}-2").returncode == 4
    assert octo.run("lock", "release", f"{name}-2").returncode == 0


def test_jobs(octo, name):
    assert octo.json("jobs", "claim", name, "--owner", "agent-7")["job"]["owner"] == "agent-7"
    assert octo.run("jobs", "claim", name).returncode == 4
    assert "owned by agent-7" in octo.run("jobs", "owner", name).stdout
    assert octo.run("jobs", "heartbeat", name).returncode == 0
    assert name in octo.run("jobs", "list").stdout
    assert octo.run("jobs", "release", name).returncode == 0
    assert octo.run("jobs", "owner", name).returncode == 3


def test_the_token(octo, backend, operator, tmp_path):
    identity = octo.json("token", "whoami")["token"]
    assert (identity["name"], identity["team"], identity["scopes"]) == ("worker", "blue", ["locks:read", "locks:write"])
    assert octo.json("token", "check")["token"]["public_id"] == identity["public_id"]
    mistyped = backend.worker_token[:-1] + ("0" if backend.worker_token[-1] != "0" else "1")
    wrong = octo.json("token", "check", OCTO_TOKEN=mistyped)
    assert "checksum" in wrong["message"]
    assert mistyped not in wrong["message"]


def test_a_token_in_a_file_is_replaced_there(octo, backend, tmp_path):
    issued = backend.server.api(backend.operator_token).call(
        "POST", "/tokens", {"name": f"rotated-{tmp_path.name}", "preset": "worker"}
    )
    file = tmp_path / "token"
    file.write_text(issued.json()["token"])
    file.chmod(0o600)
    environment = {"OCTO_TOKEN": "", "OCTO_TOKEN_FILE": str(file)}
    rotated = octo.json("token", "rotate", **environment)["token"]
    assert "token" not in rotated
    assert rotated["public_id"] in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert octo.json("token", "whoami", **environment)["token"]["public_id"] == rotated["public_id"]


def test_the_doctor(octo, backend):
    checks = {one["check"]: one["ok"] for one in octo.json("doctor")["checks"]}
    assert checks == dict.fromkeys(
        ["configuration", "token", "state file", "server", "clock", "authorisation", "scopes"], True
    )
    ill = octo.run("doctor", OCTO_URL="http://127.0.0.1:1")
    assert ill.returncode == 5
    assert "FAIL server" in ill.stdout


def test_forgetting_what_is_over(octo, name):
    octo.json("lock", "acquire", f"{name}-1", "--ttl", "1")
    octo.json("lock", "acquire", f"{name}-2", "--ttl", "1h")
    eventually(lambda: octo.json("lock", "gc")["forgotten"] == [f"{name}-1"])
    assert octo.run("lock", "release", f"{name}-2").returncode == 0


def test_no_escape_sequences_unless_on_a_terminal(octo, name):
    assert "\x1b" not in octo.run("doctor").stdout
    assert "\x1b" not in octo.run("lock", "release", name).stderr


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_sees_who_it_waits_for(octo, client, name, tmp_path, no_color):
    client.acquire(name, ttl=60, owner="agent-7")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*OCTO, "lock", "acquire", name, "--wait", "1"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path,
        env={**octo._environment({}), "TERM": "xterm", "NO_COLOR": no_color},
    )  # fmt: skip
    octo.started.append(process)
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:
        pass  # The other end is closed.
    os.close(ours)
    assert process.wait(30) == 124
    assert f"Waiting for {name}, held by agent-7" in seen.decode()
    assert (b"\x1b[31mError:" in seen) == (not no_color)


def test_help_is_there_for_every_command(octo):
    for command in COMMANDS:
        assert command.summary
        assert command.examples.startswith(("octo ", "source <(octo ")), command.path
        assert all(argument.settings.get("help") for argument in command.arguments), command.path
    printed = octo.run("run", "--help").stdout
    assert "octo run RESOURCE" in printed
    assert "octo run gpu -n 4" in printed
