"""`octo login` and profiles, the flags that every command has, and the commands of admins."""

import json
import subprocess
import sys

import pytest

from octo import Client, ConfigurationError, config
from octo.testing import FakeServer
from tests.client.command_line import PATIENCE_SECONDS

KEYRING = """
import json, os
from types import SimpleNamespace
FILE = os.environ["FAKE_KEYRING"]
def _read():
    return json.load(open(FILE)) if os.path.exists(FILE) else {}
def get_keyring():
    return SimpleNamespace(priority=5)
def get_password(service, name):
    return _read().get(f"{service} {name}")
def set_password(service, name, password):
    json.dump({**_read(), f"{service} {name}": password}, open(FILE, "w"))
def delete_password(service, name):
    rest = _read(); del rest[f"{service} {name}"]; json.dump(rest, open(FILE, "w"))
"""


@pytest.fixture
def fresh(octo, backend, tmp_path, monkeypatch):
    """A command line that knows no server and no token."""
    octo.environment = {"OCTO_TOKEN": "", "OCTO_URL": "", "XDG_CONFIG_HOME": str(tmp_path / "config")}
    for name in ("OCTO_TOKEN", "OCTO_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return octo


def log_in(octo, token: str, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "octo", "login", *words], input=f"{token}\n", env=octo._environment(environment),
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_login_is_a_profile(fresh, backend, tmp_path):
    done = log_in(fresh, backend.worker_token, "--url", backend.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert backend.worker_token not in done.stdout
    token = tmp_path / "config" / "octo" / "default.token"
    assert token.stat().st_mode & 0o777 == 0o600
    assert fresh.json("token", "whoami")["token"]["name"] == "worker"
    log_in(fresh, backend.operator_token, "--url", backend.url, "--profile", "ops")
    assert fresh.json("token", "whoami", "--profile", "ops")["token"]["name"] == "operator"
    assert fresh.json("token", "whoami", OCTO_PROFILE="ops")["token"]["name"] == "operator"
    with Client(profile="ops") as client:
        assert client.whoami().name == "operator"
    assert fresh.run("logout").returncode == 0
    assert not token.exists()
    assert fresh.run("token", "whoami").returncode == 5
    assert fresh.json("token", "whoami", "--profile", "none")["code"] == "configuration"


def test_a_saved_token_goes_to_its_own_server_only(fresh, backend):
    log_in(fresh, backend.worker_token, "--url", backend.url)
    assert fresh.json("lock", "status", "--url", "http://127.0.0.1:1")["code"] == "configuration"


def test_what_cannot_be_used_is_not_saved(fresh, backend, tmp_path):
    assert log_in(fresh, "octo_nonsense", "--url", backend.url).returncode == 5
    assert log_in(fresh, backend.worker_token[:-1], "--url", backend.url).returncode == 5
    assert not (tmp_path / "config").exists()


def test_a_keyring_is_used_where_there_is_one(fresh, backend, tmp_path):
    package = tmp_path / "packages" / "keyring"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(KEYRING)
    (package / "errors.py").write_text("class KeyringError(Exception): pass\n")
    ring = {"PYTHONPATH": str(package.parent), "FAKE_KEYRING": str(tmp_path / "ring")}
    done = log_in(fresh, backend.worker_token, "--url", backend.url, **ring)
    assert "keyring" in done.stdout
    assert not list((tmp_path / "config" / "octo").glob("*.token"))
    assert fresh.json("token", "whoami", **ring)["token"]["name"] == "worker"
    assert fresh.run("logout", **ring).returncode == 0
    assert json.loads((tmp_path / "ring").read_text()) == {}


def test_a_damaged_profile_says_so(tmp_path):
    (tmp_path / "octo").mkdir()
    (tmp_path / "octo" / "config.ini").write_text("nonsense")
    with pytest.raises(ConfigurationError, match="profiles"):
        config.resolve(environment={"XDG_CONFIG_HOME": str(tmp_path)})


def test_flags_count_before_and_after_the_command(octo, name):
    for words in (("--json", "lock", "status", name), ("lock", "status", name, "--json"),
                  ("--format", "json", "lock", "status", name), ("lock", "status", name, "--format=json")):  # fmt: skip
        assert json.loads(octo.run(*words).stdout)["data"]["locks"] == []
    assert octo.run("--url", "http://127.0.0.1:1", "lock", "status").returncode == 5
    assert octo.run("--format", "table", "lock", "status", name).stdout == f"{name} is free\n"


def test_quiet_and_verbose(octo, name):
    # Not forked: logging is set up by what the forked processes have imported.
    def run(*words: str) -> tuple[str, str]:
        return octo.start(*words).communicate(timeout=PATIENCE_SECONDS)

    assert run("lock", "acquire", name, "--quiet") == ("", "")
    assert name in run("-q", "lock", "status", name)[0]
    stdout, stderr = run("lock", "release", name, "-q", "-v")
    assert stdout == ""
    assert "/release" in stderr
    assert "Authorization" not in stderr


def test_several_locks_for_one_command(octo, client, name):
    script = "echo $OCTO_LEASES"
    done = octo.run("run", f"{name}-1", f"{name}-2", "--", "sh", "-c", script)
    leases = json.loads(done.stdout)
    assert [lease["name"] for lease in leases] == [f"{name}-1", f"{name}-2"]
    assert not list(client.locks(prefix=name))
    client.acquire(f"{name}-2", ttl=60)
    assert octo.run("run", f"{name}-1", f"{name}-2", "--", "true").returncode == 4
    assert client.inspect(f"{name}-1").status == "free"


def test_slots(octo, client, name, tmp_path):
    script = f"touch {tmp_path}/$OCTO_FENCING_TOKEN.started; while ! test -e {tmp_path}/go; do sleep 0.05; done"
    running = [octo.start("run", name, "-n", "2", "--", "sh", "-c", script) for _ in range(2)]
    while len(list(tmp_path.glob("*.started"))) < 2:
        assert all(one.poll() is None for one in running)
    assert {lock.name for lock in client.locks(prefix=name)} == {f"{name}/slot-1", f"{name}/slot-2"}
    assert octo.run("run", name, "--slots", "2", "--", "true").returncode == 4
    (tmp_path / "go").touch()
    assert [one.wait(30) for one in running] == [0, 0]
    assert octo.run("run", name, "--slots", "2", "--", "true").returncode == 0
    assert octo.run("run", name, "other", "--slots", "2", "--", "true").returncode == 2


def test_acquiring_several_from_the_shell(octo, name):
    locks = octo.json("acquire-all", f"{name}-1", f"{name}-2", "--ttl", "1m")["locks"]
    assert [lock["resource"] for lock in locks] == [f"{name}-1", f"{name}-2"]
    refused = octo.json("acquire-all", f"{name}-3", f"{name}-2")
    assert [one["resource"] for one in refused["blocked_by"]] == [f"{name}-2"]
    for number in (1, 2):
        assert octo.run("lock", "release", f"{name}-{number}").returncode == 0


def test_tokens_from_the_shell(octo, backend, name):
    as_operator = {"OCTO_TOKEN": backend.operator_token}
    issued = octo.json("tokens", "issue", name, "--prefix", "cron/", "--days", "1", **as_operator)["token"]
    assert octo.json("token", "whoami", OCTO_TOKEN=issued["token"])["token"]["prefixes"] == ["cron/"]
    listed = octo.run("tokens", "list", **as_operator).stdout
    assert issued["public_id"] in listed
    assert issued["token"] not in listed
    assert octo.run("tokens", "revoke", issued["public_id"], "--release", **as_operator).returncode == 0
    assert octo.run("token", "whoami", OCTO_TOKEN=issued["token"]).returncode == 7
    assert octo.run("tokens", "list").returncode == 7


def test_webhooks_from_the_shell(octo, backend, name):
    as_operator = {"OCTO_TOKEN": backend.operator_token}
    words = ("webhooks", "create", f"https://hooks.example.com/{name}", "--kind", "expired", "--prefix", name)
    webhook = octo.json(*words, **as_operator)["webhook"]
    assert webhook["secret"]
    listed = octo.run("webhooks", "list", **as_operator).stdout
    assert webhook["id"] in listed
    assert webhook["secret"] not in listed
    assert octo.run("webhooks", "deliveries", webhook["id"], **as_operator).stdout == "No deliveries.\n"
    assert octo.run("webhooks", "delete", webhook["id"], **as_operator).returncode == 0
    assert octo.run("webhooks", "deliveries", webhook["id"], **as_operator).returncode == 3


def test_the_manual_page_has_every_command(octo):
    from octo.cli.commands import COMMANDS

    page = octo.run("man").stdout
    assert page.startswith(".TH OCTO 1")
    for command in COMMANDS:
        assert f".SS octo {command.path}".replace("-", "\\-") in page.replace("\\-", "-").replace("-", "\\-")


def test_every_request_is_a_span_where_opentelemetry_is_used(monkeypatch, name):
    """A stand-in for the module that an instrumented program has imported."""
    from contextlib import contextmanager
    from types import SimpleNamespace

    spans = []

    @contextmanager
    def start(name):
        spans.append(name)
        yield

    tracer = SimpleNamespace(start_as_current_span=start)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", SimpleNamespace(get_tracer=lambda _: tracer))
    with FakeServer().client() as client:
        client.acquire(name).release()
    assert spans == ["octo acquire", "octo release"]


def test_nothing_that_is_saved_is_readable_by_others(fresh, backend, tmp_path):
    log_in(fresh, backend.worker_token, "--url", backend.url)
    modes = {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / "config" / "octo").iterdir()}
    assert set(modes.values()) == {0}
