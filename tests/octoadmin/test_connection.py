"""What a connection waits for and for how long, and how it says what is wrong with HTTP itself."""

import asyncio
import contextlib
import re
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from octoadmin.fast_lane.reading import MAX_PLAIN_BODY
from octoadmin.serving import connection, http_server
from octoadmin.serving.asgi_types import Receive, Scope, Send
from tests.octoadmin.fast_lane.lanes import HOST, Lanes, counted, on_lanes
from tests.octoadmin.http_client import Reply, ask, connected, head_of, listening, read_reply


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_TICKS_PER_SECOND", 1)


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


async def answers_at_once(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def on_server(talk: Callable[[int], Awaitable[Any]], *, application: Any = echo) -> Any:
    async def main() -> Any:
        async with asyncio.timeout(20), listening(application) as port:
            return await talk(port)

    return asyncio.run(main())


async def last_words(port: int, *said: bytes) -> bytes:
    """What the server says before it hangs up."""
    async with connected(port) as (reader, writer):
        for words in said:
            writer.write(words)
        with contextlib.suppress(ConnectionResetError):
            return await reader.read()
    return b""


def check_refused(answer: bytes, status: int) -> None:
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nconnection: close\r\n" in answer
    assert re.search(rb'"code":"invalid_input".*"request_id":"req_[0-9a-f]{32}"', answer)


@pytest.mark.parametrize("nonsense", [b"\x16\x03\x01\x00\xa5\r\n\r\n", b"HELO\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
def test_what_is_not_http_is_told_so(nonsense: bytes) -> None:
    check_refused(on_server(lambda port: last_words(port, nonsense)), 400)


def test_a_head_without_end_is_not_kept() -> None:
    head = b"GET / HTTP/1.1\r\nHost: a\r\n"
    line = b"X-Long: " + b"x" * 8000 + b"\r\n"
    check_refused(on_server(lambda port: last_words(port, head, *[line] * 9)), 431)


def test_a_head_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.05)
    check_refused(on_server(lambda port: last_words(port, b"GET / HTTP/1.1\r\nHos")), 408)
    # Who says nothing at all is told nothing.
    assert on_server(last_words) == b""


def test_the_rest_of_a_body_that_was_answered_already_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BODY_SECONDS", 0.05)
    head = head_of("POST", "/", [HOST, (b"content-length", b"100")])
    answer = on_server(lambda port: last_words(port, head + b"ten bytes."), application=answers_at_once)
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_beyond_so_many_connections_the_next_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_CONNECTIONS", 2)

    async def talk(port: int) -> None:
        async with connected(port), connected(port):
            await asyncio.sleep(0.05)
            answer = await last_words(port)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nretry-after: 1\r\n" in answer
            assert b'"code":"unavailable"' in answer
        # When it has noticed that they left.
        while (await ask(port, "GET", "/", [HOST])).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    on_server(talk)


def test_a_head_that_is_too_large_is_refused_also_if_it_comes_at_once() -> None:
    head = head_of("GET", "/", [HOST, *[(b"x-long", b"x" * 8000)] * 9])
    check_refused(on_server(lambda port: last_words(port, head)), 431)


def test_a_body_that_cannot_be_read_is_told_so() -> None:
    head = head_of("POST", "/", [HOST, (b"transfer-encoding", b"chunked")])
    check_refused(on_server(lambda port: last_words(port, head + b"so many\r\n")), 400)


def test_what_comes_after_a_body_is_no_part_of_the_head() -> None:
    async def headers_of(scope: Scope, _receive: Receive, send: Send) -> None:
        body = b",".join(name for name, _ in scope["headers"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    headers = [HOST, (b"transfer-encoding", b"chunked")]
    trailer = [b"0\r\nAuthorization: Bearer of-somebody\r\n\r\n"]
    reply = on_server(lambda port: ask(port, "POST", "/", headers, pieces=trailer), application=headers_of)
    assert reply.body == b"host,transfer-encoding"


def test_what_comes_after_a_body_has_an_end() -> None:
    head = head_of("POST", "/", [HOST, (b"transfer-encoding", b"chunked")])
    line = b"X-Long: " + b"x" * 8000 + b"\r\n"

    async def talk(port: int) -> bytes:
        async with connected(port) as (reader, writer):
            writer.write(head + b"0\r\n")
            await asyncio.sleep(0.05)
            writer.write(line * 9)
            return await reader.read()

    check_refused(on_server(talk), 431)


@pytest.mark.parametrize(("target", "path"), [("http://localhost", b"/"), ("http://localhost?a=b", b"/")])
def test_an_address_without_a_path_is_that_of_the_root(target: str, path: bytes) -> None:
    assert on_server(lambda port: ask(port, "GET", target, [HOST])).body == path


def test_requests_sent_without_waiting_may_be_many() -> None:
    """More than a head may have, and the last of them is not complete yet."""
    request = head_of("GET", "/", [HOST, (b"x-long", b"x" * 1000)])

    async def talk(port: int) -> None:
        async with connected(port) as (reader, writer):
            writer.write(request * 100 + request[:-10])
            await asyncio.sleep(0.05)
            writer.write(request[-10:])
            for _ in range(101):
                assert (await read_reply(reader)).status == 200

    on_server(talk)


@pytest.mark.parametrize("pause", [0, 0.05])
def test_who_leaves_is_missed_also_after_having_asked_for_more(pause: float) -> None:
    async def talk() -> None:
        waits, has_left = asyncio.Event(), asyncio.Event()

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            waits.set()
            while (await receive())["type"] != "http.disconnect":
                pass
            has_left.set()

        async with asyncio.timeout(20), listening(application) as port:
            async with connected(port) as (_, writer):
                writer.write(head_of("GET", "/", [HOST]))
                await asyncio.sleep(pause)
                writer.write(head_of("GET", "/more", [HOST]))
                await waits.wait()
                await asyncio.sleep(0.05)
            await has_left.wait()

    asyncio.run(talk())


def test_who_does_not_take_the_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "STALL_SECONDS", 0.2)

    async def main() -> None:
        given_up = asyncio.Event()

        async def much(_scope: Scope, _receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(2):
                await send({"type": "http.response.body", "body": b"x" * 40_000_000, "more_body": True})
            given_up.set()

        async with asyncio.timeout(20), listening(much) as port:
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(head_of("GET", "/", [HOST]))
                await given_up.wait()

    asyncio.run(main())


def test_a_farewell_without_end_keeps_nobody() -> None:
    """As when the database, which is to be told as well, does not answer."""

    async def main() -> None:
        async with asyncio.timeout(20), listening(echo, farewell=asyncio.Event().wait) as port, connected(port) as talk:
            pass
        assert await talk[0].read() == b""

    asyncio.run(main())


def test_who_asks_to_be_promoted_is_answered_in_plain_http() -> None:
    headers = [HOST, (b"connection", b"upgrade"), (b"upgrade", b"websocket"), (b"sec-websocket-version", b"13")]
    assert on_server(lambda port: ask(port, "GET", "/a", headers)).body == b"/a"


@pytest.mark.parametrize("size", [1, 1000])
def test_who_asks_to_be_promoted_is_read_to_the_end(size: int) -> None:
    """As Java's client asks with its first request, also if that has a body."""
    upgrade = [
        HOST,
        (b"connection", b"Upgrade, HTTP2-Settings"),
        (b"upgrade", b"h2c"),
        (b"http2-settings", b"AAMAAABk"),
    ]
    said = (
        head_of("GET", "/a", upgrade)
        + head_of("POST", "/b", [*upgrade, (b"content-length", b"4")]) + b"body"
        + head_of("POST", "/c", [*upgrade, (b"transfer-encoding", b"chunked")]) + b"4\r\nbody\r\n0\r\n\r\n"
        + head_of("GET", "/d", [HOST])
    )  # fmt: skip

    async def talk(port: int) -> list[bytes]:
        async with connected(port) as (reader, writer):
            for start in range(0, len(said), size):
                writer.write(said[start : start + size])
                await asyncio.sleep(0)
            return [(await read_reply(reader)).body for _ in range(4)]

    assert on_server(talk) == [b"/a", b"/bbody", b"/cbody", b"/d"]


def test_nobody_is_passed_on_to_another_server() -> None:
    check_refused(on_server(lambda port: last_words(port, head_of("CONNECT", "/", [HOST]))), 405)


def test_who_asks_whether_to_send_a_body_and_is_refused_gets_the_end_of_the_connection() -> None:
    """Whether the next bytes are that body or the next request is not known."""
    head = head_of("POST", "/", [HOST, (b"expect", b"100-continue"), (b"content-length", b"100")])

    async def talk(port: int) -> bytes:
        return await last_words(port, head)

    answer = on_server(talk, application=answers_at_once)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"\r\nconnection: close\r\n" in answer


def test_who_asks_whether_to_send_a_body_and_may_is_answered_as_usual() -> None:
    head = head_of("POST", "/a", [HOST, (b"expect", b"100-continue"), (b"content-length", b"4")])

    async def talk(port: int) -> None:
        async with connected(port) as (reader, writer):
            for _ in range(2):
                writer.write(head)
                assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
                writer.write(b"body")
                assert (await read_reply(reader)).body == b"/abody"

    on_server(talk)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"HELO\r\n\r\n",
        head_of("POST", "/", [HOST, (b"transfer-encoding", b"chunked")]) + b"so many\r\n",
    ],
)
def test_nonsense_takes_no_answer_away_from_what_came_before_it(nonsense: bytes) -> None:
    said = head_of("GET", "/a", [HOST]) + head_of("GET", "/b", [HOST]) + nonsense
    answer = on_server(lambda port: last_words(port, said))
    assert re.findall(rb"/[ab]", answer) == [b"/a", b"/b"]
    assert answer.count(b"HTTP/1.1 200 ") == 2
    assert b"\r\nconnection: close\r\n" in answer


def test_who_sends_ever_more_requests_is_not_read_for_ever() -> None:
    async def talk() -> None:
        go_on = asyncio.Event()

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            await go_on.wait()
            await echo(scope, receive, send)

        async with asyncio.timeout(20), listening(slow) as port, connected(port) as (reader, writer):
            writer.write(head_of("GET", "/", [HOST]) * (connection.MAX_IN_LINE * 2))
            await asyncio.sleep(0.05)
            go_on.set()
            answers = await reader.read()
            assert 0 < answers.count(b"HTTP/1.1 200 ") <= connection.MAX_IN_LINE + 1
            assert answers.count(b"connection: close") == 1

    asyncio.run(talk())


async def in_a_row(port: int, *requests: bytes) -> list[Reply]:
    """Sent at once, without waiting for an answer."""
    async with connected(port) as (reader, writer):
        writer.write(b"".join(requests))
        return [await read_reply(reader) for _ in requests]


@pytest.mark.usefixtures("committed")
class TestExchanges:
    """Those that the fast lane answers."""

    def test_many_follow_each_other_on_one_connection(self, worker_token: str) -> None:
        async def talk(lanes: Lanes) -> None:
            async with connected(lanes.port) as (reader, writer):
                for name in ("a", "b", "c"):
                    writer.write(head_of("POST", f"/locks/{name}/acquire", lanes.words()[0]))
                    reply = await read_reply(reader)
                    assert (reply.status, reply.json["name"]) == (200, name)
                    assert "date" in reply.headers
                    assert "connection" not in reply.headers

        on_lanes(worker_token, talk)

    def test_requests_sent_without_waiting_are_answered_in_their_order(self, worker_token: str) -> None:
        """The first is the fast lane's. Whatever comes while it is under way waits, and goes to the sync lane."""

        async def talk(lanes: Lanes) -> None:
            headers = lanes.words()[0]
            asked = [
                head_of("POST", "/locks/a/acquire", headers), head_of("GET", "/status", [HOST]),
                head_of("POST", "/locks/b/acquire", headers), head_of("GET", "/locks/a", headers),
            ]  # fmt: skip
            first, status, second, seen = await in_a_row(lanes.port, *asked)
            assert (first.json["name"], first.json["status"]) == ("a", "acquired")
            assert "name" not in status.json
            assert (second.json["name"], second.json["status"]) == ("b", "acquired")
            assert (seen.json["name"], seen.json["status"]) == ("a", "held")

        on_lanes(worker_token, talk)

    def test_who_asks_for_the_end_of_the_connection_gets_it(self, worker_token: str) -> None:
        async def talk(lanes: Lanes) -> None:
            headers = [*lanes.words()[0], (b"connection", b"close")]
            answer = await last_words(lanes.port, head_of("POST", "/locks/a/acquire", headers))
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"\r\nconnection: close\r\n" in answer

        on_lanes(worker_token, talk)

    def test_nonsense_takes_no_answer_away_from_what_came_before_it(self, worker_token: str) -> None:
        async def talk(lanes: Lanes) -> None:
            said = head_of("POST", "/locks/a/acquire", lanes.words()[0]) + b"HELO\r\n\r\n"
            answer = await last_words(lanes.port, said)
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b'"status":"acquired"' in answer
            assert b"\r\nconnection: close\r\n" in answer

        on_lanes(worker_token, talk)

    def test_a_body_that_does_not_come_is_not_waited_for(
        self, worker_token: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "BODY_SECONDS", 0.05)

        async def talk(lanes: Lanes) -> None:
            headers, _ = lanes.words({"ttl_seconds": 60})
            check_refused(await last_words(lanes.port, head_of("POST", "/locks/job/acquire", headers) + b'{"ttl'), 400)
            assert (await lanes.acquire("job")).json["status"] == "acquired"

        on_lanes(worker_token, talk)

    def test_a_large_body_is_left_to_the_lane_that_has_a_budget_for_bodies(self, worker_token: str) -> None:
        async def talk(lanes: Lanes) -> None:
            before = counted("octoadmin_lane_left_to_sync_total", reason="body")
            assert (await lanes.acquire("job", unknown="x" * MAX_PLAIN_BODY)).json["status"] == "acquired"
            assert counted("octoadmin_lane_left_to_sync_total", reason="body") == before + 1

        on_lanes(worker_token, talk)

    def test_a_connection_that_nobody_uses_any_more_is_closed(
        self, worker_token: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "KEEP_ALIVE_SECONDS", 0.05)

        async def talk(lanes: Lanes) -> None:
            answer = await last_words(lanes.port, head_of("POST", "/locks/a/acquire", lanes.words()[0]))
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"connection" not in answer

        on_lanes(worker_token, talk)
