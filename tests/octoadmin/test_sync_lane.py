"""What Django is told about a request on the sync lane, and what the client is told about the answer."""

import asyncio
import re
import threading
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import pytest
import structlog
from django.core.handlers.wsgi import WSGIRequest
from django.db import connection
from django.http import HttpResponse, HttpResponseNotModified, JsonResponse

from octoadmin.asgi import application
from octoadmin.probes.metrics import REGISTRY
from octoadmin.serving import request_body
from octoadmin.serving.sync_lane import SyncLane
from tests.octoadmin.asgi_client import Client, Reply, ask, on_lane, request_scope
from tests.polling import async_until

BLUE_PROXY = [ip_network("10.0.0.0/8")]


def told(path: str = "/", *, trusted_proxies: Any = (), **scope: Any) -> dict[str, Any]:
    """The environ that Django gets for a request."""
    seen: list[dict[str, Any]] = []

    def view(environ: dict[str, Any]) -> HttpResponse:
        seen.append(environ)
        return HttpResponse()

    on_lane(view, lambda lane: ask(lane, path, **scope), trusted_proxies=trusted_proxies)
    return seen[0]


def refused(reply: Reply, status: int, code: str) -> str:
    """Asserts the contract's shape and returns what the client is told to do."""
    assert (reply.status, reply.json["code"]) == (status, code)
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-request-id"] == reply.json["request_id"]
    assert re.fullmatch(r"req_[0-9a-f]{32}", reply.json["request_id"])
    assert reply.json["error"]
    return reply.json["details"]


def test_the_path_is_decoded_and_a_slash_is_a_slash_either_way() -> None:
    environ = told("/locks/path%3Asrc%2Fauth.rs/caf%C3%A9?x=%20é")
    request = WSGIRequest(environ)
    assert request.path == "/locks/path:src/auth.rs/café"
    assert request.GET["x"] == " é"
    assert environ["RAW_URI"] == "/locks/path%3Asrc%2Fauth.rs/caf%C3%A9"


@pytest.mark.parametrize("path", ["/locks/%FF", "/%C3", "/locks/a%00b"])
def test_a_path_that_is_no_text_reaches_django(path: str) -> None:
    reply = on_lane(lambda environ: HttpResponse(WSGIRequest(environ).path_info), lambda lane: ask(lane, path))
    assert reply.body.decode() == path.replace("%00", "\0")


def test_headers_sent_twice_are_joined() -> None:
    headers = [(b"x-a", b"1"), (b"cookie", b"a=1"), (b"x-a", b"2"), (b"cookie", b"b=2")]
    environ = told(headers=headers)
    assert environ["HTTP_X_A"] == "1,2"
    assert WSGIRequest(environ).COOKIES == {"a": "1", "b": "2"}


def test_a_header_with_an_underscore_cannot_pass_for_another() -> None:
    environ = told(headers=[(b"x_forwarded_for", b"1.1.1.1"), (b"content_length", b"7")])
    assert "HTTP_X_FORWARDED_FOR" not in environ
    assert environ["CONTENT_LENGTH"] == "0"


def test_no_header_can_name_the_request() -> None:
    environ = told(headers=[(b"octoadmin.request_id", b"mine"), (b"x-request-id", b"mine")])
    assert environ["octoadmin.request_id"].startswith("req_")


def test_address_and_scheme_come_from_the_peer() -> None:
    headers = [(b"x-forwarded-for", b"203.0.113.5"), (b"x-forwarded-proto", b"https")]
    environ = told(headers=headers)
    assert environ["REMOTE_ADDR"] == "192.0.2.1"
    assert not WSGIRequest(environ).is_secure()


def test_address_and_scheme_come_from_a_trusted_proxy() -> None:
    headers = [(b"x-forwarded-for", b"203.0.113.5"), (b"x-forwarded-proto", b"https")]
    environ = told(headers=headers, client=("10.0.0.1", "4711"), trusted_proxies=BLUE_PROXY)
    assert environ["REMOTE_ADDR"] == "203.0.113.5"
    assert WSGIRequest(environ).is_secure()


def test_a_peer_without_an_address_has_none() -> None:
    assert "REMOTE_ADDR" not in told(client=None)


def body_of(environ: dict[str, Any]) -> HttpResponse:
    return HttpResponse(WSGIRequest(environ).read())


@pytest.mark.parametrize("headers", [[(b"content-length", b"9")], [(b"transfer-encoding", b"chunked")]])
def test_the_body_arrives_whole(headers: list[tuple[bytes, bytes]]) -> None:
    chunks = [b"one", b"two", b"six"]
    reply = on_lane(body_of, lambda lane: ask(lane, method="POST", headers=headers, chunks=chunks))
    assert reply.body == b"onetwosix"


def test_a_body_of_unknown_length_arrives_over_http_2() -> None:
    reply = on_lane(body_of, lambda lane: ask(lane, http_version="2", headers=[], chunks=[b"abc"]))
    assert reply.body == b"abc"


def test_a_body_announced_as_too_large_is_refused_unread() -> None:
    async def talk(lane: SyncLane) -> None:
        client = Client(chunks=[b"x"] * 10)
        headers = [(b"content-length", str(request_body.MAX_BODY + 1).encode())]
        await lane(request_scope(method="POST", headers=headers), client.receive, client.send)
        assert str(request_body.MAX_BODY) in refused(client.reply, 413, "invalid_input")
        assert client.asked == 0

    on_lane(body_of, talk)


def test_a_body_that_grows_too_large_is_refused_without_reading_on() -> None:
    async def talk(lane: SyncLane) -> None:
        client = Client(chunks=[b"x" * request_body.MAX_BODY, b"x", b"x", b"x"])
        headers = [(b"transfer-encoding", b"chunked")]
        await lane(request_scope(method="POST", headers=headers), client.receive, client.send)
        refused(client.reply, 413, "invalid_input")
        assert client.asked == 2

    on_lane(body_of, talk)


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.05)

    async def talk(lane: SyncLane) -> None:
        client = Client(chunks=[b"ab"])
        scope = request_scope(method="POST", headers=[(b"content-length", b"3")], http_version="1.1")

        async def receive() -> dict[str, Any]:
            return {**await client.receive(), "more_body": True}

        await lane(scope, receive, client.send)
        refused(client.reply, 400, "invalid_input")

    on_lane(body_of, talk)


def test_a_client_that_leaves_while_sending_gets_no_answer() -> None:
    called: list[Any] = []

    async def talk(lane: SyncLane) -> None:
        client = Client()
        client.departed.set()
        await client.receive()
        scope = request_scope(method="POST", headers=[(b"content-length", b"3")])
        await lane(scope, client.receive, client.send)
        assert client.reply.messages == []

    on_lane(lambda environ: called.append(environ) or HttpResponse(), talk)
    assert called == []


def test_a_plain_answer_is_two_messages() -> None:
    def view(_environ: dict[str, Any]) -> HttpResponse:
        response = JsonResponse({"status": "acquired"}, status=201)
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")
        return response

    reply = on_lane(view, ask)
    assert len(reply.messages) == 2
    assert (reply.status, reply.json) == (201, {"status": "acquired"})
    assert reply.headers["content-length"] == str(len(reply.body))
    cookies = [value for name, value in reply.messages[0]["headers"] if name == b"set-cookie"]
    assert [cookie.partition(b";")[0] for cookie in cookies] == [b"a=1", b"b=2"]


def test_head_tells_the_length_and_sends_nothing() -> None:
    reply = on_lane(lambda _: HttpResponse(b"12345"), lambda lane: ask(lane, method="HEAD"))
    assert (reply.headers["content-length"], reply.body) == ("5", b"")


@pytest.mark.parametrize("response", [HttpResponse(status=204), HttpResponseNotModified()])
def test_an_answer_without_a_body_has_no_length(response: HttpResponse) -> None:
    reply = on_lane(lambda _: response, ask)
    assert reply.body == b""
    assert "content-length" not in reply.headers


@pytest.mark.parametrize("failure", [RuntimeError("secret"), SystemExit("secret"), StopIteration("secret")])
def test_a_failure_outside_of_django_is_an_internal_error_without_internals(failure: BaseException) -> None:
    def view(_environ: dict[str, Any]) -> HttpResponse:
        raise failure

    with structlog.testing.capture_logs() as lines:
        reply = on_lane(view, ask)
    refused(reply, 500, "internal_error")
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

    on_lane(view, ask, threads=4)
    assert len(threads) == 2
    assert len(set(threads)) == 1


def test_what_one_request_binds_the_next_does_not_see() -> None:
    def view(_environ: dict[str, Any]) -> HttpResponse:
        before = structlog.contextvars.get_contextvars()
        structlog.contextvars.bind_contextvars(team="blue")
        return JsonResponse(before)

    async def talk(lane: SyncLane) -> list[Any]:
        return [(await ask(lane)).json for _ in range(3)]

    assert on_lane(view, talk, threads=1) == [{}, {}, {}]


def gauge(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


def test_too_many_waiting_requests_are_told_to_come_back() -> None:
    go = threading.Event()

    def view(_environ: dict[str, Any]) -> HttpResponse:
        go.wait()
        return HttpResponse()

    async def talk(lane: SyncLane) -> None:
        admitted = [asyncio.create_task(ask(lane)) for _ in range(3)]
        await async_until(lambda: gauge("octoadmin_requests_in_flight", lane="sync") == 3)
        assert gauge("octoadmin_requests_waiting") == 2
        reply = await ask(lane)
        go.set()
        refused(reply, 503, "unavailable")
        assert reply.headers["retry-after"] == "1"
        assert reply.json["retry_after_ms"] == 1000
        assert [reply.status for reply in await asyncio.gather(*admitted)] == [200, 200, 200]
        assert gauge("octoadmin_requests_in_flight", lane="sync") == 0
        assert gauge("octoadmin_requests_waiting") == 0

    on_lane(view, talk, threads=1, most_waiting=2)


def test_requests_are_counted_by_what_came_of_them() -> None:
    def count() -> float:
        return gauge("octoadmin_requests_total", lane="sync", method="OTHER", status="4xx") or 0

    before = count()
    on_lane(lambda _: HttpResponse(status=404), lambda lane: ask(lane, method="BREW"))
    assert count() == before + 1


def test_stopping_lets_requests_end_and_takes_no_more() -> None:
    go = threading.Event()

    def view(_environ: dict[str, Any]) -> HttpResponse:
        go.wait()
        return HttpResponse(b"done")

    async def talk(lane: SyncLane) -> None:
        under_way = [asyncio.create_task(ask(lane)) for _ in range(2)]
        await async_until(lambda: gauge("octoadmin_requests_waiting") == 1)
        stopping = asyncio.create_task(asyncio.to_thread(lane.stop))
        await async_until(lambda: lane._threads._stopping)
        go.set()
        assert [reply.body for reply in await asyncio.gather(*under_way)] == [b"done", b"done"]
        await stopping
        refused(await ask(lane), 503, "unavailable")

    on_lane(view, talk, threads=1)


@pytest.fixture
def _database_on_any_thread(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The lane's threads only read, over connections of their own that end with the lane."""
    with django_db_blocker.unblock():
        yield


def backend_pid(_environ: dict[str, Any]) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return JsonResponse(cursor.fetchone()[0], safe=False)


@pytest.mark.usefixtures("_database_on_any_thread")
def test_a_thread_keeps_its_database_connection() -> None:
    async def talk(lane: SyncLane) -> set[int]:
        return {(await ask(lane)).json for _ in range(5)}

    assert len(on_lane(backend_pid, talk, threads=1)) == 1


@pytest.mark.usefixtures("_database_on_any_thread")
def test_the_thread_that_was_idle_last_works_first() -> None:
    async def talk(lane: SyncLane) -> set[int]:
        pids = set()
        for _ in range(5):
            pids.add((await ask(lane)).json)
            await async_until(lambda: len(lane._threads._idle) == 8)
        return pids

    assert len(on_lane(backend_pid, talk, threads=8)) == 1


@pytest.mark.usefixtures("_database_on_any_thread")
def test_a_connection_that_the_database_ended_costs_no_request() -> None:
    async def talk(lane: SyncLane) -> None:
        pid = (await ask(lane)).json
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        connection.close()
        reply = await ask(lane)
        assert reply.status == 200
        assert reply.json != pid

    on_lane(backend_pid, talk, threads=1)


def test_the_application_refuses_what_is_not_http() -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(application({"type": "websocket"}, None, send))  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1000}]
    with pytest.raises(ValueError, match="smoke signals"):
        asyncio.run(application({"type": "smoke signals"}, None, send))  # type: ignore[arg-type]
