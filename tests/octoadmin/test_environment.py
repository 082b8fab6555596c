"""Settings from the environment: typed, documented, and wrong ones reported together."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from octoadmin.environment import Environment, EnvironmentProblem, environment

PROJECT = Path(__file__).parent.parent.parent


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch):
    """read(PORT="80") is the environment with just that set."""
    for name in Environment.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)

    def read(**variables: str) -> Environment:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        environment.cache_clear()
        try:
            return environment()
        finally:
            environment.cache_clear()

    return read


def test_the_default_is_an_embedded_database_on_loopback(read):
    found = read()
    assert (found.host, found.port, found.embedded, found.debug) == ("127.0.0.1", 8000, True, False)


def test_empty_means_not_set(read):
    assert read(DATABASE_URL="", PORT="").port == 8000


def test_lists_are_separated_by_commas(read):
    found = read(ALLOWED_HOSTS="a.example, b.example", TRUSTED_PROXIES="10.0.0.0/8,::1")
    assert found.allowed_hosts == ["a.example", "b.example"]
    assert [str(network) for network in found.trusted_proxies] == ["10.0.0.0/8", "::1/128"]


def test_several_database_hosts(read):
    url = "postgresql://octo:pw@one:5432,two:5433/octo?target_session_attrs=read-write"
    assert not read(DATABASE_URL=url, SECRET_KEY="x" * 40).embedded


def test_all_problems_are_reported_together_without_quoting_secrets(read):
    with pytest.raises(EnvironmentProblem) as problem:
        read(
            PORT="99999",
            LOG_LEVEL="loud",
            CELERY_BROKER_URL="carrier-pigeon://x",
            TRUSTED_PROXIES="everybody",
            SECRET_KEY="too-short-secret",
            DATABASE_URL="mysql://octo:hunter2@db/octo",
        )
    lines = str(problem.value).splitlines()
    named = {line.partition(":")[0] for line in lines}
    assert named == {"PORT", "LOG_LEVEL", "CELERY_BROKER_URL", "TRUSTED_PROXIES", "SECRET_KEY", "DATABASE_URL"}
    assert "hunter2" not in str(problem.value)
    assert "too-short-secret" not in str(problem.value)


def test_an_external_database_needs_a_secret_key(read):
    with pytest.raises(EnvironmentProblem, match="SECRET_KEY: must be set together with DATABASE_URL"):
        read(DATABASE_URL="postgresql://octo@db/octo")


def test_the_generated_secret_is_kept_and_private(read, tmp_path):
    found = read(OCTO_DATA_DIR=str(tmp_path / "data"))
    secret = found.resolved_secret_key()
    assert len(secret) >= 32
    assert found.resolved_secret_key() == secret
    assert stat.S_IMODE((tmp_path / "data" / "secret_key").stat().st_mode) == 0o600


def test_the_command_line_reports_problems_without_a_traceback():
    bad = os.environ | {"PORT": "none", "LOG_FORMAT": "xml"}
    done = subprocess.run(
        [sys.executable, "manage.py", "check"], cwd=PROJECT, env=bad, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "PORT:" in done.stderr
    assert "LOG_FORMAT:" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_variable_is_documented():
    table = (PROJECT / "docs" / "configuration.md").read_text()
    documented = {
        match[1]: match[2] for match in re.finditer(r"^\| `([A-Z_]+)` \| [^|]* \| (.+) \|$", table, re.MULTILINE)
    }
    expected = {name.upper(): field.description for name, field in Environment.model_fields.items()}
    assert documented == expected


def test_a_damaged_secret_is_named_and_not_used(read, tmp_path):
    (tmp_path / "secret_key").write_text("")
    with pytest.raises(EnvironmentProblem, match="is damaged"):
        read(OCTO_DATA_DIR=str(tmp_path)).resolved_secret_key()
