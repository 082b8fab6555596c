"""Logs: one JSON object a line, with the request's id, and never a secret."""

import json
import logging
import os
import subprocess
import sys

import pytest
import structlog
from django.test import Client

from locks import token_format
from octoadmin.logs import logging_config, mask_secrets
from tests.conftest import issue
from tests.servers import RunningServer


def test_tokens_are_masked_but_for_their_public_id():
    token = token_format.generate()
    line = mask_secrets(None, "info", f"sent {token} in Authorization: Bearer {token}")
    assert token.split("_")[2] not in line
    assert token.split("_")[1] in line


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_lines_of_libraries_and_tracebacks_are_masked_too(log_format):
    token = token_format.generate()
    script = f"""
import logging
from octoadmin import logs
logs.configure(logs.logging_config(log_format="{log_format}", level="info"))
logging.getLogger("some.library").warning("got %s", "{token}")
try:
    raise ValueError("Bearer {token}")
except ValueError:
    logging.getLogger("some.library").exception("failed")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "some.library" in done.stderr
    assert "ValueError" in done.stderr
    assert token.split("_")[2] not in done.stderr


def test_a_bound_request_id_is_on_the_line():
    handler = logging_config(log_format="json", level="info")["formatters"]["structured"]
    formatter = structlog.stdlib.ProcessorFormatter(**{name: value for name, value in handler.items() if name != "()"})
    structlog.contextvars.bind_contextvars(request_id="req_1")
    try:
        record = logging.LogRecord("octoadmin", logging.INFO, __file__, 1, "hello", None, None)
        line = json.loads(formatter.format(record))
    finally:
        structlog.contextvars.clear_contextvars()
    assert (line["request_id"], line["event"], line["level"]) == ("req_1", "hello", "info")


@pytest.mark.django_db
@pytest.mark.parametrize("log_format", ["json", "console"])
def test_an_error_line_of_django_has_no_query_string(log_format, client, monkeypatch, settings):
    """As it is written for a view that fails and for a form without its CSRF token."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append
    for name in ("django.request", "django.security.csrf"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [handler])
    monkeypatch.setattr("octoadmin.monitoring.views.render_metrics", lambda: 1 / 0)
    client.raise_request_exception = False
    assert client.get("/metrics?code=query-secret").status_code == 500
    assert Client(enforce_csrf_checks=True).post("/ui/sign-in?code=query-secret").status_code == 403
    config = logging_config(log_format=log_format, level="info")["formatters"]["structured"]
    formatter = structlog.stdlib.ProcessorFormatter(**{name: value for name, value in config.items() if name != "()"})
    lines = [formatter.format(record) for record in records]
    assert len(lines) >= 2
    assert "/metrics" in lines[0]
    assert [line for line in lines if "query-secret" in line] == []


@pytest.mark.timeout(60)
def test_a_servers_log_has_ids_and_teams_and_no_secret(committed, space, tmp_path):
    token = issue(space, "worker", "locks:read", "locks:write")
    log = tmp_path / "log"
    server = RunningServer(os.environ["DATABASE_URL"], {"LOG_LEVEL": "debug", "LOG_FORMAT": "json"}, log=log)
    server.start()
    try:
        api = server.api(token)
        answers = {
            "/locks/a/acquire": api.call("POST", "/locks/a/acquire"),
            "/whoami": api.call("GET", "/whoami"),
        }
    finally:
        server.stop()
    text = log.read_text()
    assert token.split("_")[2] not in text
    assert answers["/locks/a/acquire"].json()["lease_id"] not in text
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    for path in ("/whoami", "/locks/a/acquire"):
        (line,) = [line for line in lines if line.get("path") == path]
        assert (line["team"], line["token"], line["status"]) == ("blue", token.split("_")[1], 200)
        assert line["request_id"] == answers[path].headers["X-Request-Id"]
