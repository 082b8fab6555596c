"""Where the server is, and how a token gets there without anybody seeing it."""

import os
import stat

import pytest

from locks import token_format
from locks.api.errors import Code as ServerCode
from octo import Client, ConfigurationError, config, errors
from octo.cli.output import format_duration, parse_duration

TOKEN = token_format.generate()


def resolve(**given):
    return config.resolve(environment=given.pop("environment", {}), **given)


def test_arguments_count_before_the_environment():
    environment = {"OCTO_URL": "https://octo.example.com/", "OCTO_TOKEN": TOKEN}
    assert resolve(environment=environment)[:2] == ("https://octo.example.com", TOKEN)
    assert resolve(url="https://other.example.com", token="another", environment=environment)[:2] == (
        "https://other.example.com",
        "another",
    )
    assert resolve(environment={"OCTO_TOKEN": TOKEN}).url == "http://127.0.0.1:8000"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.1.2.3", "octo.localhost"])
def test_a_token_may_go_to_loopback_in_the_clear(host):
    assert resolve(url=f"http://{host}:8000", token=TOKEN)


@pytest.mark.parametrize("host", ["octo.example.com", "127.0.0.1.example.com", "10.0.0.1", "localhost.example.com"])
def test_a_token_goes_nowhere_else_in_the_clear_unless_told_to(host):
    with pytest.raises(ConfigurationError, match="in the clear"):
        resolve(url=f"http://{host}", token=TOKEN)
    assert resolve(url=f"http://{host}", token=TOKEN, allow_http=True)
    assert resolve(url=f"http://{host}", token=TOKEN, environment={"OCTO_ALLOW_HTTP": "1"})
    assert resolve(url=f"https://{host}", token=TOKEN)


@pytest.mark.parametrize(
    "url", ["ftp://host", "octo.example.com", "https://me:secret@host", "https://host?a=b", "https://"]
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ConfigurationError, match="OCTO_URL"):
        resolve(url=url, token=TOKEN)


def test_a_token_file_is_for_its_owner_only(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    found = resolve(environment={"OCTO_TOKEN_FILE": str(file)})
    assert found.token == TOKEN
    for mode in (0o640, 0o604, 0o660):
        file.chmod(mode)
        with pytest.raises(ConfigurationError, match="chmod 600"):
            resolve(token_file=file)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        resolve(token_file=tmp_path / "missing")


def test_no_token_is_a_problem_that_says_what_to_do():
    with pytest.raises(ConfigurationError, match="OCTO_TOKEN"):
        resolve()


def test_nothing_that_is_printed_shows_a_token():
    assert TOKEN not in repr(resolve(token=TOKEN))


def test_tokens_are_checked_as_the_server_does():
    for _ in range(100):
        issued = token_format.generate()
        assert config.validate_token(issued) is None
        assert config.public_id(issued) == token_format.parse(issued).public_id
    for wrong in (
        "",
        "octo_",
        TOKEN[:-1],
        TOKEN + "0",
        TOKEN[:-1] + ("0" if TOKEN[-1] != "0" else "1"),
        "ghp_" + TOKEN,
    ):
        assert token_format.parse(wrong) is None
        assert config.public_id(wrong) is None
        assert config.validate_token(wrong)
        assert len(wrong) < 10 or wrong not in config.validate_token(wrong)


def test_every_error_code_of_the_server_is_an_exception():
    for code in ServerCode:
        raised = errors.from_body(status=400, body={"error": "Title", "code": code.value, "details": "why"})
        assert raised.code == code.value
        assert type(raised) is not errors.ApiError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("30s", 30), ("15m", 900), ("1h", 3600), ("1h30m", 5400), ("1d", 86400)]
)
def test_spans_of_time(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "1.5h", "-5", "30 s", "1m1h", "forever", "٣s"])
def test_what_is_no_span_of_time(text):
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(1500, "25m"), (59, "59s"), (90, "1m30s"), (5400, "1h30m"), (0, "0s"), (90000, "1d1h")]
)
def test_spans_as_they_are_shown(seconds, text):
    assert format_duration(seconds) == text


def test_a_forked_child_holds_nothing(client, name):
    """The lease stays the parent's: the child neither renews nor releases it, and has connections of its own."""
    with client.lock(name, ttl=30) as lease:
        child = os.fork()
        if child == 0:
            ok = False
            try:
                lease.release()
                lease.__exit__(None, None, None)
                ok = not lease.is_ours and client.inspect(name).fencing_token == lease.fencing_token
            finally:
                os._exit(0 if ok else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.inspect(name).fencing_token == lease.fencing_token
    assert client.inspect(name).status == "free"


def test_the_client_of_the_environment(monkeypatch, backend, tmp_path):
    file = tmp_path / "token"
    file.write_text(backend.worker_token)
    file.chmod(stat.S_IRUSR)
    monkeypatch.setenv("OCTO_URL", backend.url)
    monkeypatch.setenv("OCTO_TOKEN_FILE", str(file))
    monkeypatch.delenv("OCTO_TOKEN", raising=False)
    with Client() as client:
        assert client.whoami().name == "worker"
