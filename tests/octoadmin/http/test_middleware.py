"""Around every request: id, host, log line, security headers, and the response without a database."""

import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import engines
from django.test import Client
from django.urls import path

from locks.engine.execution import Unavailable
from locks.engine.retry import RetriesExhausted

pytestmark = pytest.mark.urls(__name__)

POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"


def context(request: HttpRequest) -> HttpResponse:
    bound = structlog.contextvars.get_contextvars()
    structlog.contextvars.bind_contextvars(team="blue")
    return JsonResponse({"request_id": request.request_id, "bound": bound})  # type: ignore[attr-defined]


def page(_request: HttpRequest) -> HttpResponse:
    response = HttpResponse("<p>Hello</p>")
    response.set_cookie("flavour", "chocolate")
    return response


def page_with_script(request: HttpRequest) -> HttpResponse:
    template = engines["django"].from_string('<script nonce="{{ request.csp_nonce }}"></script>')
    return HttpResponse(template.render({}, request))


def page_with_policy(_request: HttpRequest) -> HttpResponse:
    return HttpResponse("", headers={"Content-Security-Policy": "default-src 'none'"})


def without_database(_request: HttpRequest) -> HttpResponse:
    raise OperationalError("connection to server at 10.0.0.7 failed")


def with_broken_cursor(_request: HttpRequest) -> HttpResponse:
    raise InterfaceError("cursor already closed")


def with_failed_operation(_request: HttpRequest) -> HttpResponse:
    raise Unavailable("canceling statement due to lock timeout")


def with_exhausted_retries(_request: HttpRequest) -> HttpResponse:
    raise RetriesExhausted("acquire")


def broken(_request: HttpRequest) -> HttpResponse:
    raise ZeroDivisionError


urlpatterns = [
    path("context", context),
    path("health", context),
    path("metrics", context),
    path("locks/<path:name>", context),
    path("ui/page", page),
    path("ui/script", page_with_script),
    path("ui/policy", page_with_policy),
    path("without-database", without_database),
    path("with-broken-cursor", with_broken_cursor),
    path("ui/without-database", without_database),
    path("ui/with-failed-operation", with_failed_operation),
    path("ui/with-exhausted-retries", with_exhausted_retries),
    path("broken", broken),
]


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[list[Any]]:
    caplog.set_level(logging.DEBUG, logger="octoadmin.http.request_log")
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        yield lines


def test_every_request_has_its_own_id(client: Client) -> None:
    replies = [client.get("/context") for _ in range(2)]
    ids = [reply["X-Request-Id"] for reply in replies]
    assert ids == [reply.json()["request_id"] for reply in replies]
    assert ids[0] != ids[1]
    assert all(re.fullmatch(r"req_[0-9a-f]{32}", each) for each in ids)


@pytest.mark.parametrize("header", ["X-Request-Id", "octoadmin.request_id"])
def test_the_client_does_not_choose_its_id(client: Client, header: str) -> None:
    assert client.get("/context", headers={header: "req_mine"})["X-Request-Id"] != "req_mine"


def test_errors_have_an_id_too(client: Client) -> None:
    assert client.get("/nowhere")["X-Request-Id"].startswith("req_")


def test_log_lines_have_the_id_and_no_context_of_the_previous_request(client: Client) -> None:
    client.get("/context")
    reply = client.get("/context")
    assert reply.json()["bound"] == {"request_id": reply["X-Request-Id"]}
    assert structlog.contextvars.get_contextvars() == {}


def test_an_unknown_host_is_rejected(client: Client) -> None:
    reply = client.get("/context", headers={"Host": "evil.example"})
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid_input")
    assert "ALLOWED_HOSTS" in reply.json()["details"]
    assert reply.json()["request_id"] == reply["X-Request-Id"]


@pytest.mark.parametrize("probe", ["/health", "/metrics"])
def test_health_and_metrics_accept_any_host(client: Client, probe: str) -> None:
    assert client.get(probe, headers={"Host": "10.1.2.3:8000"}).status_code == 200


def test_a_page_is_logged_without_its_query(client: Client, logged: list[Any]) -> None:
    reply = client.get("/ui/page?secret=1")
    (line,) = logged
    assert line.pop("ms") >= 0
    assert line == {
        "event": "request",
        "log_level": "info",
        "method": "GET",
        "path": "/ui/page",
        "status": 200,
        "request_id": reply["X-Request-Id"],
    }


def test_a_call_of_the_api_is_logged_for_debugging_only(client: Client, logged: list[Any]) -> None:
    client.get("/context")
    assert [line["log_level"] for line in logged] == ["debug"]


def test_a_path_cannot_inject_a_log_line(client: Client, logged: list[Any]) -> None:
    client.get("/locks/a%0A%1B[31mfake")
    assert [line["path"] for line in logged] == ["/locks/a%0A%1B%5B31mfake"]


@pytest.mark.parametrize("call", ["/without-database", "/with-broken-cursor"])
def test_without_the_database_the_api_answers_503(client: Client, caplog: pytest.LogCaptureFixture, call: str) -> None:
    reply = client.get(call)
    assert (reply.status_code, reply["Retry-After"]) == (503, "1")
    assert reply["Content-Type"] == "application/json"
    body = reply.json()
    assert (body["code"], body["retry_after_ms"]) == ("unavailable", 1000)
    assert body["request_id"] == reply["X-Request-Id"]
    assert "10.0.0.7" not in reply.content.decode()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


@pytest.mark.parametrize("page", ["without-database", "with-failed-operation", "with-exhausted-retries"])
def test_without_the_database_a_page_reports_it_and_reloads(client: Client, page: str) -> None:
    reply = client.get(f"/ui/{page}")
    text = reply.content.decode()
    assert (reply.status_code, reply["Retry-After"]) == (503, "1")
    assert reply["Content-Type"] == "text/html; charset=utf-8"
    assert "The database cannot be reached" in text
    assert reply["X-Request-Id"] in text
    assert 'http-equiv="refresh"' in text


def test_a_form_that_failed_is_not_sent_again_by_itself(client: Client) -> None:
    assert 'http-equiv="refresh"' not in client.post("/ui/without-database").content.decode()


def test_other_exceptions_are_not_reported_as_database_failures(client: Client) -> None:
    client.raise_request_exception = False
    assert client.get("/broken").status_code == 500


def test_over_https_cookies_are_secure_and_hsts_is_set(client: Client) -> None:
    reply = client.get("/ui/page", secure=True)
    assert reply.cookies["flavour"]["secure"]
    assert reply["Strict-Transport-Security"] == "max-age=31536000"


def test_over_http_there_are_neither_secure_cookies_nor_hsts(client: Client) -> None:
    reply = client.get("/ui/page")
    assert not reply.cookies["flavour"]["secure"]
    assert "Strict-Transport-Security" not in reply


def test_a_page_runs_only_our_scripts(client: Client) -> None:
    assert client.get("/ui/page")["Content-Security-Policy"] == POLICY


def test_a_nonce_is_in_the_policy_only_if_the_page_has_one(client: Client) -> None:
    replies = [client.get("/ui/script") for _ in range(2)]
    nonces = [re.findall(r'nonce="([^"]+)"', reply.content.decode())[0] for reply in replies]
    assert nonces[0] != nonces[1]
    for reply, nonce in zip(replies, nonces, strict=True):
        assert f"script-src 'self' 'nonce-{nonce}';" in reply["Content-Security-Policy"]


def test_the_page_without_the_database_looks_like_the_others(client: Client) -> None:
    reply = client.get("/ui/without-database")
    assert re.search(r'<link rel="stylesheet" href="/static/css/octoadmin\.[0-9a-f]+\.css">', reply.content.decode())
    assert reply["Content-Security-Policy"] == POLICY


def test_a_view_may_set_its_own_policy(client: Client) -> None:
    assert client.get("/ui/policy")["Content-Security-Policy"] == "default-src 'none'"


def test_json_needs_no_policy(client: Client) -> None:
    assert "Content-Security-Policy" not in client.get("/context")
