"""What Django gets of a request on the WSGI bridge, and what the client gets of the response."""

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import pytest
import structlog
from django.core.handlers.wsgi import WSGIRequest
from django.db import connection
from django.http import HttpResponse, HttpResponseNotModified, JsonResponse

from locks.metrics import REGISTRY
from octoadmin.asgi import application
from octoadmin.wsgi_bridge import request_body
from octoadmin.wsgi_bridge.bridge import WSGIBridge
from tests.octoadmin.asgi_client import Client, Reply, ask, on_bridge, request_scope
from tests.polling import async_until

BLUE_PROXY = [ip_network("10.0.0.0/8")]


def environ_for(path: str = "/", *, trusted_proxies: Any = (), **scope: Any) -> dict[str, Any]:
    """The environ that Django gets for a request."""
    seen: list[dict[str, Any]] = []

    def view(environ: dict[str, Any]) -> HttpResponse:
        seen.append(environ)
        return HttpResponse()

    on_bridge(view, lambda bridge: ask(bridge, path, **scope), trusted_proxies=trusted_proxies)
    return seen[0]


def assert_error(reply: Reply, status: int, code: str) -> str:
    """Asserts the contract's format and returns the details."""
    assert (reply.status, reply.json["code"]) == (status, code)
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-request-id"] == reply.json["request_id"]
    assert re.fullmatch(r"req_[0-9a-f]{32}", reply.json["request_id"])
    assert reply.json["error"]
    return reply.json["details"]


def test_the_path_is_decoded_including_slashes() -> None:
    environ = environ_for("/locks/path%3Asrc%2Fauth.rs/caf%C3%A9?x=%20é")
    request = WSGIRequest(environ)
    assert request.path == "/locks/path:src/auth.rs/café"
    assert request.GET["x"] == " é"
    assert environ["RAW_URI"] == "/locks/path%3Asrc%2Fauth.rs/caf%C3%A9"


@pytest.mark.parametrize("path", ["/locks/%FF", "/%C3", "/locks/a%00b"])
def test_a_path_that_is_not_utf_8_reaches_django(path: str) -> None:
    reply = on_bridge(lambda environ: HttpResponse(WSGIRequest(environ).path_info), lambda bridge: ask(bridge, path))
    assert reply.body.decode() == path.replace("%00", "\0")


def test_headers_sent_twice_are_joined() -> None:
    headers = [(b"x-a", b"1"), (b"cookie", b"a=1"), (b"x-a", b"2"), (b"cookie", b"b=2")]
    environ = environ_for(headers=headers)
    assert environ["HTTP_X_A"] == "1,2"
    assert WSGIRequest(environ).COOKIES == {"a": "1", "b": "2"}


def test_a_header_with_an_underscore_cannot_pass_for_another() -> None:
    environ = environ_for(headers=[(b"x_forwarded_for", b"1.1.1.1"), (b"content_length", b"7")])
    assert "HTTP_X_FORWARDED_FOR" not in environ
    assert environ["CONTENT_LENGTH"] == "0"


def test_no_header_can_name_the_request() -> None:
    environ = environ_for(headers=[(b"octoadmin.request_id", b"mine"), (b"x-request-id", b"mine")])
    assert environ["octoadmin.request_id"].startswith("req_")


def test_address_and_scheme_come_from_the_peer() -> None:
    headers = [(b"x-forwarded-for", b"203.0.113.5"), (b"x-forwarded-proto", b"https")]
    environ = environ_for(headers=headers)
    assert environ["REMOTE_ADDR"] == "192.0.2.1"
    assert not WSGIRequest(environ).is_secure()


def test_address_and_scheme_come_from_a_trusted_proxy() -> None:
    headers = [(b"x-forwarded-for", b"203.0.113.5"), (b"x-forwarded-proto", b"https")]
    environ = environ_for(headers=headers, client=("10.0.0.1", "4711"), trusted_proxies=BLUE_PROXY)
    assert environ["REMOTE_ADDR"] == "203.0.113.5"
    assert WSGIRequest(environ).is_secure()


def test_a_peer_without_an_address_has_none() -> None:
    assert "REMOTE_ADDR" not in environ_for(client=None)


def body_of(environ: dict[str, Any]) -> HttpResponse:
    return HttpResponse(WSGIRequest(environ).read())


@pytest.mark.parametrize("headers", [[(b"content-length", b"9")], [(b"transfer-encoding", b"chunked")]])
def test_the_body_arrives_whole(headers: list[tuple[bytes, bytes]]) -> None:
    chunks = [b"one", b"two", b"six"]
    reply = on_bridge(body_of, lambda bridge: ask(bridge, method="POST", headers=headers, chunks=chunks))
    assert reply.body == b"onetwosix"


def test_a_body_of_unknown_length_arrives_over_http_2() -> None:
    reply = on_bridge(body_of, lambda bridge: ask(bridge, http_version="2", headers=[], chunks=[b"abc"]))
    assert reply.body == b"abc"


def test_a_body_announced_as_too_large_is_rejected_unread() -> None:
    async def scenario(bridge: WSGIBridge) -> None:
        client = Client(chunks=[b"x"] * 10)
        headers = [(b"content-length", str(request_body.MAX_BODY + 1).encode())]
        await bridge(request_scope(method="POST", headers=headers), client.receive, client.send)
        assert str(request_body.MAX_BODY) in assert_error(client.reply, 413, "invalid_input")
        assert client.asked == 0

    on_bridge(body_of, scenario)


def test_a_body_that_grows_too_large_is_rejected_at_once() -> None:
    async def scenario(bridge: WSGIBridge) -> None:
        client = Client(chunks=[b"x" * request_body.MAX_BODY, b"x", b"x", b"x"])
        headers = [(b"transfer-encoding", b"chunked")]
        await bridge(request_scope(method="POST", headers=headers), client.receive, client.send)
        assert_error(client.reply, 413, "invalid_input")
        assert client.asked == 2

    on_bridge(body_of, scenario)


def test_a_body_that_does_not_come_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.05)

    async def scenario(bridge: WSGIBridge) -> None:
        client = Client(chunks=[b"ab"])
        scope = request_scope(method="POST", headers=[(b"content-length", b"3")], http_version="1.1")

        async def receive() -> dict[str, Any]:
            return {**await client.receive(), "more_body": True}

        await bridge(scope, receive, client.send)
        assert_error(client.reply, 400, "invalid_input")

    on_bridge(body_of, scenario)


def test_a_client_that_disconnects_while_sending_gets_no_response() -> None:
    called: list[Any] = []

    async def scenario(bridge: WSGIBridge) -> None:
        client = Client()
        client.departed.set()
        await client.receive()
        scope = request_scope(method="POST", headers=[(b"content-length", b"3")])
        await bridge(scope, client.receive, client.send)
        assert client.reply.messages == []

    on_bridge(lambda environ: called.append(environ) or HttpResponse(), scenario)
    assert called == []


def test_a_plain_response_is_two_messages() -> None:
    def view(_environ: dict[str, Any]) -> HttpResponse:
        response = JsonResponse({"status": "acquired"}, status=201)
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")
        return response

    reply = on_bridge(view, ask)
    assert len(reply.messages) == 2
    assert (reply.status, reply.json) == (201, {"status": "acquired"})
    assert reply.headers["content-length"] == str(len(reply.body))
    cookies = [value for name, value in reply.messages[0]["headers"] if name == b"set-cookie"]
    assert [cookie.partition(b";")[0] for cookie in cookies] == [b"a=1", b"b=2"]


def test_head_has_the_length_and_no_body() -> None:
    reply = on_bridge(lambda _: HttpResponse(b"12345"), lambda bridge: ask(bridge, method="HEAD"))
    assert (reply.headers["content-length"], reply.body) == ("5", b"")


@pytest.mark.parametrize("response", [HttpResponse(status=204), HttpResponseNotModified()])
def test_a_response_without_a_body_has_no_length(response: HttpResponse) -> None:
    reply = on_bridge(lambda _: response, ask)
    assert reply.body == b""
    assert "content-length" not in reply.headers


@pytest.mark.parametrize("failure", [RuntimeError("secret"), SystemExit("secret"), StopIteration("secret")])
def test_a_failure_outside_of_django_is_an_internal_error_without_internals(failure: BaseException) -> None:
    def view(_environ: dict[str, Any]) -> HttpResponse:
        raise failure

    with structlog.testing.capture_logs() as lines:
        reply = on_bridge(view, ask)
    assert_error(reply, 500, "internal_error")
    assert b"secret" not in reply.body
    (line,) = lines
    assert (line["log_level"], line["request_id"]) == ("error", reply.json["request_id"])


def test_a_response_is_closed_on_the_thread_that_made_it() -> None:
    threads: list[str] = []

    class Response(HttpResponse):
        def close(self) -> None:
            threads.append(threading.current_thread().name)
            super().close()

    def view(_environ: dict[str, Any]) -> HttpResponse:
        threads.append(threading.current_thread().name)
        return Response()

    on_bridge(view, ask, threads=4)
    assert len(threads) == 2
    assert len(set(threads)) == 1


def test_log_context_is_not_shared_between_requests() -> None:
    def view(_environ: dict[str, Any]) -> HttpResponse:
        before = structlog.contextvars.get_contextvars()
        structlog.contextvars.bind_contextvars(team="blue")
        return JsonResponse(before)

    async def scenario(bridge: WSGIBridge) -> list[Any]:
        return [(await ask(bridge)).json for _ in range(3)]

    assert on_bridge(view, scenario, threads=1) == [{}, {}, {}]


def gauge(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


def test_too_many_waiting_requests_get_a_503() -> None:
    go = threading.Event()

    def view(_environ: dict[str, Any]) -> HttpResponse:
        go.wait()
        return HttpResponse()

    async def scenario(bridge: WSGIBridge) -> None:
        admitted = [asyncio.create_task(ask(bridge)) for _ in range(3)]
        await async_until(lambda: gauge("octoadmin_requests_in_flight") == 3)
        assert gauge("octoadmin_requests_waiting") == 2
        reply = await ask(bridge)
        go.set()
        assert_error(reply, 503, "unavailable")
        assert reply.headers["retry-after"] == "1"
        assert reply.json["retry_after_ms"] == 1000
        assert [reply.status for reply in await asyncio.gather(*admitted)] == [200, 200, 200]
        assert gauge("octoadmin_requests_in_flight") == 0
        assert gauge("octoadmin_requests_waiting") == 0

    on_bridge(view, scenario, threads=1, max_waiting=2)


def test_requests_are_counted_by_status() -> None:
    def count() -> float:
        return gauge("octoadmin_requests_total", kind="django", method="OTHER", status="4xx") or 0

    before = count()
    on_bridge(lambda _: HttpResponse(status=404), lambda bridge: ask(bridge, method="BREW"))
    assert count() == before + 1


def test_stopping_lets_requests_end_and_rejects_new_ones() -> None:
    go = threading.Event()

    def view(_environ: dict[str, Any]) -> HttpResponse:
        go.wait()
        return HttpResponse(b"done")

    async def scenario(bridge: WSGIBridge) -> None:
        under_way = [asyncio.create_task(ask(bridge)) for _ in range(2)]
        await async_until(lambda: gauge("octoadmin_requests_waiting") == 1)
        stopping = asyncio.create_task(asyncio.to_thread(bridge.stop))
        await async_until(lambda: bridge._threads._stopping)
        go.set()
        assert [reply.body for reply in await asyncio.gather(*under_way)] == [b"done", b"done"]
        await stopping
        assert_error(await ask(bridge), 503, "unavailable")

    on_bridge(view, scenario, threads=1)


@pytest.fixture
def _database_on_any_thread(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The bridge's threads only read, over connections of their own that end with the bridge."""
    with django_db_blocker.unblock():
        yield


def backend_pid(_environ: dict[str, Any]) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return JsonResponse(cursor.fetchone()[0], safe=False)


@pytest.mark.usefixtures("_database_on_any_thread")
def test_a_thread_keeps_its_database_connection() -> None:
    async def scenario(bridge: WSGIBridge) -> set[int]:
        return {(await ask(bridge)).json for _ in range(5)}

    assert len(on_bridge(backend_pid, scenario, threads=1)) == 1


@pytest.mark.usefixtures("_database_on_any_thread")
def test_the_thread_that_became_idle_last_gets_the_next_job() -> None:
    async def scenario(bridge: WSGIBridge) -> set[int]:
        pids = set()
        for _ in range(5):
            pids.add((await ask(bridge)).json)
            await async_until(lambda: len(bridge._threads._idle) == 8)
        return pids

    assert len(on_bridge(backend_pid, scenario, threads=8)) == 1


@pytest.mark.usefixtures("_database_on_any_thread")
def test_a_connection_closed_by_the_database_fails_no_request() -> None:
    async def scenario(bridge: WSGIBridge) -> None:
        pid = (await ask(bridge)).json
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        connection.close()
        reply = await ask(bridge)
        assert reply.status == 200
        assert reply.json != pid

    on_bridge(backend_pid, scenario, threads=1)


def test_the_application_rejects_other_protocols() -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(application({"type": "websocket"}, None, send))  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1000}]
    with pytest.raises(ValueError, match="smoke signals"):
        asyncio.run(application({"type": "smoke signals"}, None, send))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/health"),
        ("POST", "/sessions/0d2c0f3a-4b6e-4d5a-9a55-9d3f0f6f2b11/keepalive"),
        ("POST", "/locks/deploy/renew"),
        ("POST", "/locks/renew-all"),
    ],
)
def test_health_keepalives_and_renewals_do_not_wait_behind_pages(method: str, path: str) -> None:
    ended = threading.Event()

    def view(environ: dict[str, Any]) -> HttpResponse:
        if environ["PATH_INFO"] == "/page":
            ended.wait(10)
        return HttpResponse(b"done")

    async def scenario(bridge: WSGIBridge) -> None:
        pages = [asyncio.create_task(ask(bridge, "/page")) for _ in range(4)]
        await asyncio.sleep(0.05)
        try:
            async with asyncio.timeout(5):
                assert (await ask(bridge, path, method=method)).body == b"done"
        finally:
            ended.set()
        await asyncio.gather(*pages)

    on_bridge(view, scenario, threads=1)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/watch", b""),
        ("GET", "/locks/deploy/watch", b""),
        ("GET", "/events/export", b""),
        ("POST", "/locks/acquire-all", b"x" * 2000),
    ],
)
def test_what_takes_long_is_done_one_after_the_other_for_one_client(method: str, path: str, body: bytes) -> None:
    lock, running, most = threading.Lock(), 0, 0

    def view(environ: dict[str, Any]) -> HttpResponse:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return HttpResponse(b"done")

    async def scenario(bridge: WSGIBridge) -> None:
        headers = [(b"host", b"localhost"), (b"content-length", b"%d" % len(body))]
        await asyncio.gather(*(ask(bridge, path, method=method, headers=headers, chunks=[body]) for _ in range(6)))

    on_bridge(view, scenario, threads=8)
    assert most == 1
