"""What the stock web server guarantees on the wire: bad requests, pipelining, limits, clients that leave."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from octoadmin.batching.head import MAX_BODY
from octoadmin.http.asgi_types import Receive, Scope, Send
from octoadmin.run import server
from octoadmin.wsgi_bridge import request_body
from tests.octoadmin.asgi_client import body_of, running_bridge
from tests.octoadmin.batching.both_paths import HOST, Paths, counted, on_paths
from tests.octoadmin.http_client import Reply, ask, connected, head_of, listening, read_reply


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the path and the body."""
    body = scope["path"].encode()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message["body"]
        if not message["more_body"]:
            break
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def on_server(test: Callable[[int], Awaitable[Any]], *, application: Any = echo) -> Any:
    async def main() -> Any:
        async with asyncio.timeout(20), listening(application) as port:
            return await test(port)

    return asyncio.run(main())


def on_django(test: Callable[[int], Awaitable[Any]]) -> Any:
    """Behind the WSGI bridge, which echoes the body."""

    async def main() -> Any:
        async with asyncio.timeout(20), running_bridge(body_of) as bridge, listening(bridge) as port:
            return await test(port)

    return asyncio.run(main())


async def until_closed(port: int, *sent: bytes) -> bytes:
    """What the server sends before it closes the connection."""
    async with connected(port) as (reader, writer):
        for data in sent:
            writer.write(data)
        with contextlib.suppress(ConnectionResetError):
            return await reader.read()
    return b""


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x00\xa5\r\n\r\n", b"HELO\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
def test_garbage_gets_a_400_and_the_connection_is_closed(garbage: bytes) -> None:
    answer = on_server(lambda port: until_closed(port, garbage))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nconnection: close\r\n" in answer


def test_an_invalid_chunked_body_ends_the_connection() -> None:
    head = head_of("POST", "/", [HOST, (b"transfer-encoding", b"chunked")])
    assert on_server(lambda port: until_closed(port, head + b"so many\r\n")).startswith(b"HTTP/1.1 400 ")


def test_trailers_of_a_chunked_body_do_not_replace_what_a_proxy_has_set() -> None:
    """uvicorn adds trailers to the headers, and no proxy has checked them."""
    headers = [HOST, (b"x-forwarded-for", b"203.0.113.5"), (b"transfer-encoding", b"chunked")]
    trailers = [b"0\r\nX-Forwarded-For: 127.0.0.1\r\n\r\n"]
    reply = on_django(lambda port: ask(port, "POST", "/", headers, pieces=trailers))
    assert (reply.status, reply.json["code"]) == (400, "invalid_input")


def test_beyond_the_limit_of_connections_requests_get_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)

    async def test(port: int) -> None:
        async with connected(port), connected(port):
            await asyncio.sleep(0.05)
            assert (await until_status(port)) == 503
        while (await until_status(port)) != 200:  # noqa: ASYNC110 -- the server has no event for it
            await asyncio.sleep(0.05)

    async def until_status(port: int) -> int:
        answer = await until_closed(port, head_of("GET", "/", [HOST, (b"connection", b"close")]))
        return int(answer.split()[1])

    on_server(test)


def test_many_pipelined_requests_are_answered_in_order() -> None:
    async def test(port: int) -> None:
        async with connected(port) as (reader, writer):
            writer.write(b"".join(head_of("GET", f"/{number}", [HOST]) for number in range(100)))
            for number in range(100):
                assert (await read_reply(reader)).body == b"/%d" % number

    on_server(test)


def test_an_application_notices_that_its_client_has_left() -> None:
    async def main() -> None:
        waits, has_left = asyncio.Event(), asyncio.Event()

        async def application(_scope: Scope, receive: Receive, _send: Send) -> None:
            waits.set()
            while (await receive())["type"] != "http.disconnect":
                pass
            has_left.set()

        async with asyncio.timeout(20), listening(application) as port:
            async with connected(port) as (_, writer):
                writer.write(head_of("GET", "/", [HOST]))
                await waits.wait()
            await has_left.wait()

    asyncio.run(main())


def test_an_upgrade_request_is_answered_in_plain_http() -> None:
    headers = [HOST, (b"connection", b"upgrade"), (b"upgrade", b"websocket"), (b"sec-websocket-version", b"13")]
    assert on_server(lambda port: ask(port, "GET", "/a", headers)).body == b"/a"


def test_a_rejected_request_that_expects_100_continue_ends_its_connection() -> None:
    """Whether the next bytes are its body or another request is unknown."""
    length = str(request_body.MAX_BODY + 1).encode()
    head = head_of("POST", "/", [HOST, (b"expect", b"100-continue"), (b"content-length", length)])
    answer = on_django(lambda port: until_closed(port, head))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"\r\nconnection: close\r\n" in answer


def test_an_accepted_request_that_expects_100_continue_is_answered_as_usual() -> None:
    head = head_of("POST", "/a", [HOST, (b"expect", b"100-continue"), (b"content-length", b"4")])

    async def test(port: int) -> None:
        async with connected(port) as (reader, writer):
            for _ in range(2):
                writer.write(head)
                assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
                writer.write(b"body")
                assert (await read_reply(reader)).body == b"/abody"

    on_server(test)


def test_a_body_that_does_not_come_gets_a_400(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.05)
    head = head_of("POST", "/", [HOST, (b"content-length", b"100")])
    answer = on_django(lambda port: until_closed(port, head + b"ten bytes."))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert re.search(rb'"code":"invalid_input".*"request_id":"req_[0-9a-f]{32}"', answer)


async def pipelined(port: int, *requests: bytes) -> list[Reply]:
    """Sent at once, without waiting for a response."""
    async with connected(port) as (reader, writer):
        writer.write(b"".join(requests))
        return [await read_reply(reader) for _ in requests]


@pytest.mark.usefixtures("committed")
class TestFastPath:
    def test_many_requests_on_one_connection(self, worker_token: str) -> None:
        async def test(paths: Paths) -> None:
            async with connected(paths.port) as (reader, writer):
                for name in ("a", "b", "c"):
                    writer.write(head_of("POST", f"/locks/{name}/acquire", paths.request_parts()[0]))
                    reply = await read_reply(reader)
                    assert (reply.status, reply.json["name"]) == (200, name)
                    assert "date" in reply.headers
                    assert "connection" not in reply.headers

        on_paths(worker_token, test)

    def test_another_token_on_the_same_connection_is_another_caller(self, worker_token: str) -> None:
        from locks import token_format

        async def test(paths: Paths) -> None:
            right, wrong = (
                paths.request_parts()[0],
                [HOST, (b"authorization", f"Bearer {token_format.generate()}".encode())],
            )
            async with connected(paths.port) as (reader, writer):
                for headers, status in [(right, 200), (right, 200), (wrong, 401), (wrong, 401), (right, 200)]:
                    writer.write(head_of("POST", "/locks/a/acquire", headers))
                    assert (await read_reply(reader)).status == status

        on_paths(worker_token, test)

    def test_pipelined_requests_of_both_paths_are_answered_in_order(self, worker_token: str) -> None:
        async def test(paths: Paths) -> None:
            headers = paths.request_parts()[0]
            requests = [
                head_of("POST", "/locks/a/acquire", headers), head_of("GET", "/status", [HOST]),
                head_of("POST", "/locks/b/acquire", headers), head_of("GET", "/locks/a", headers),
            ]  # fmt: skip
            first, status, second, seen = await pipelined(paths.port, *requests)
            assert (first.json["name"], first.json["status"]) == ("a", "acquired")
            assert "name" not in status.json
            assert (second.json["name"], second.json["status"]) == ("b", "acquired")
            assert (seen.json["name"], seen.json["status"]) == ("a", "held")

        on_paths(worker_token, test)

    def test_connection_close_is_honoured(self, worker_token: str) -> None:
        async def test(paths: Paths) -> None:
            headers = [*paths.request_parts()[0], (b"connection", b"close")]
            answer = await until_closed(paths.port, head_of("POST", "/locks/a/acquire", headers))
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"\r\nconnection: close\r\n" in answer

        on_paths(worker_token, test)

    def test_a_body_that_comes_in_parts_is_bounded_in_time(
        self, worker_token: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(request_body, "BODY_SECONDS", 0.05)

        async def test(paths: Paths) -> None:
            headers, _ = paths.request_parts({"ttl_seconds": 60})
            answer = await until_closed(paths.port, head_of("POST", "/locks/job/acquire", headers) + b'{"ttl')
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert (await paths.acquire("job")).json["status"] == "acquired"

        on_paths(worker_token, test)

    def test_a_request_without_a_valid_token_does_not_reach_django(self, worker_token: str) -> None:
        async def test(paths: Paths) -> None:
            django = counted("octoadmin_requests_total", kind="django", method="POST", status="4xx")
            async with connected(paths.port) as (reader, writer):
                body = b'{"ttl_seconds": 60}'
                length = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
                codes = []
                for token in ([], [(b"authorization", b"Bearer octo_nonsense")], [(b"authorization", b"Basic x")]):
                    writer.write(head_of("POST", "/locks/job/acquire", [HOST, *token, *length]) + body)
                    reply = await read_reply(reader)
                    codes.append((reply.status, reply.json["code"]))
            required = (401, "authentication_required")
            assert codes == [required, (401, "authentication_failed"), required]
            assert counted("octoadmin_requests_total", kind="django", method="POST", status="4xx") == django

        on_paths(worker_token, test)

    def test_a_body_in_two_packets_is_read_whole(self, worker_token: str) -> None:
        async def test(paths: Paths) -> None:
            headers, (body,) = paths.request_parts({"ttl_seconds": 60})
            for pieces in ([b"", body], [body[:5], body[5:]]):
                reply = await ask(paths.port, "POST", "/locks/job/acquire", headers, pieces=pieces)
                assert reply.status == 200

        on_paths(worker_token, test)

    def test_a_large_body_falls_back_to_django(self, worker_token: str) -> None:
        async def test(paths: Paths) -> None:
            before = counted("octoadmin_batch_fallbacks_total", reason="body")
            assert (await paths.acquire("job", unknown="x" * MAX_BODY)).json["status"] == "acquired"
            assert counted("octoadmin_batch_fallbacks_total", reason="body") == before + 1

        on_paths(worker_token, test)

    def test_an_idle_connection_is_closed(self, worker_token: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", 0.05)

        async def test(paths: Paths) -> None:
            answer = await until_closed(paths.port, head_of("POST", "/locks/a/acquire", paths.request_parts()[0]))
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"connection" not in answer

        on_paths(worker_token, test)
