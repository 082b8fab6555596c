"""Responses that the bridge sends piece by piece: streams and files."""

import asyncio
import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from django.http import FileResponse, HttpResponse, StreamingHttpResponse

from octoadmin.wsgi_bridge import streaming
from octoadmin.wsgi_bridge.bridge import FILE_BLOCK, WSGIBridge
from tests.octoadmin.asgi_client import Client, ask, on_bridge, request_scope
from tests.polling import async_until


class Numbers:
    """A stream that knows how far it got, and on which thread it ended."""

    def __init__(self, count: int, *, failing_at: int | None = None) -> None:
        self.count = count
        self.failing_at = failing_at
        self.made = 0
        self.ended_by: str | None = None

    def __call__(self, _environ: dict[str, Any]) -> StreamingHttpResponse:
        return StreamingHttpResponse(self._numbers(), headers={"X-Kind": "numbers"})

    def _numbers(self) -> Iterator[str]:
        try:
            for number in range(self.count):
                if number == self.failing_at:
                    raise RuntimeError("no such number")
                self.made = number + 1
                yield f"{number} "
        finally:
            self.ended_by = threading.current_thread().name


def test_a_stream_goes_out_piece_by_piece_and_ends() -> None:
    numbers = Numbers(3)
    reply = on_bridge(numbers, ask)
    assert [message["body"] for message in reply.messages[1:]] == [b"0 ", b"1 ", b"2 ", b""]
    assert reply.finished
    assert reply.headers["x-kind"] == "numbers"
    assert numbers.ended_by is not None
    assert numbers.ended_by.startswith("django-stream")


def test_a_slow_reader_slows_the_stream_down() -> None:
    numbers = Numbers(1000)

    async def scenario(bridge: WSGIBridge) -> None:
        taking = asyncio.Semaphore(3)

        async def take(_message: dict[str, Any]) -> None:
            await taking.acquire()

        client = Client(before_taking=take)
        request = asyncio.create_task(bridge(request_scope(), client.receive, client.send))
        await async_until(lambda: numbers.made >= 3)
        await asyncio.sleep(0.2)
        assert len(client.reply.messages) == 3
        assert numbers.made == 3
        client.departed.set()
        for _ in range(10):
            taking.release()
        await request

    on_bridge(numbers, scenario)


def test_streams_that_are_not_read_hold_no_thread() -> None:
    def view(environ: dict[str, Any]) -> HttpResponse | StreamingHttpResponse:
        return Numbers(1000)(environ) if environ["PATH_INFO"] == "/stream" else HttpResponse(b"quick")

    async def scenario(bridge: WSGIBridge) -> None:
        never = asyncio.Event()

        async def take(_message: dict[str, Any]) -> None:
            await never.wait()

        clients = [Client(before_taking=take) for _ in range(8)]
        unread = [asyncio.create_task(bridge(request_scope("/stream"), each.receive, each.send)) for each in clients]
        await asyncio.sleep(0.1)
        async with asyncio.timeout(5):
            assert (await ask(bridge, "/quick")).body == b"quick"
        for each in clients:
            each.departed.set()
        never.set()
        await asyncio.gather(*unread)

    on_bridge(view, scenario, threads=1)


def test_a_large_piece_is_sent_in_small_messages() -> None:
    """The server buffers a whole message for a client that does not read."""
    pieces = [b"x" * (3 * streaming.MAX_MESSAGE + 1), b"", b"y"]
    reply = on_bridge(lambda _: StreamingHttpResponse(iter(pieces)), ask)
    assert reply.body == b"".join(pieces)
    assert reply.finished
    assert max(len(message["body"]) for message in reply.messages[1:]) == streaming.MAX_MESSAGE


def test_a_stream_ends_when_its_client_disconnects() -> None:
    numbers = Numbers(1_000_000)

    async def scenario(bridge: WSGIBridge) -> bool:
        async def take(_message: dict[str, Any]) -> None:
            if len(client.reply.messages) == 5:
                client.departed.set()

        client = Client(before_taking=take)
        await bridge(request_scope(), client.receive, client.send)
        return client.reply.finished

    assert not on_bridge(numbers, scenario)
    assert numbers.made < 100
    assert numbers.ended_by is not None
    assert numbers.ended_by.startswith("django-stream")


def test_a_client_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "STALL_SECONDS", 0.1)
    numbers = Numbers(1000)

    async def scenario(bridge: WSGIBridge) -> bool:
        async def take(_message: dict[str, Any]) -> None:
            if len(client.reply.messages) == 5:
                await asyncio.Event().wait()

        client = Client(before_taking=take)
        await bridge(request_scope(), client.receive, client.send)
        return client.reply.finished

    assert not on_bridge(numbers, scenario)
    assert numbers.ended_by is not None
    assert numbers.ended_by.startswith("django-stream")


def test_a_stream_that_fails_is_left_unfinished_so_that_the_client_can_tell() -> None:
    numbers = Numbers(10, failing_at=2)
    with structlog.testing.capture_logs() as lines:
        reply = on_bridge(numbers, ask)
    assert reply.body == b"0 1 "
    assert not reply.finished
    assert [line["log_level"] for line in lines] == ["error"]


def test_head_does_not_start_a_stream() -> None:
    numbers = Numbers(10)
    reply = on_bridge(numbers, lambda bridge: ask(bridge, method="HEAD"))
    assert (reply.status, reply.body, numbers.made) == (200, b"", 0)


def test_a_small_file_is_one_piece(tmp_path: Path) -> None:
    file = tmp_path / "small.txt"
    file.write_bytes(b"small")
    reply = on_bridge(lambda _: FileResponse(file.open("rb")), ask)
    assert len(reply.messages) == 2
    assert reply.body == b"small"
    assert reply.headers["content-length"] == "5"


@pytest.mark.parametrize("size", [FILE_BLOCK - 1, FILE_BLOCK, FILE_BLOCK + 1, 5 * FILE_BLOCK])
def test_a_file_arrives_whole_and_is_closed(size: int) -> None:
    file = io.BytesIO(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    content = file.getvalue()
    reply = on_bridge(lambda _: FileResponse(file, filename="numbers.bin"), ask)
    assert reply.body == content
    assert reply.finished
    assert file.closed


def test_a_slow_reader_of_a_file_holds_no_thread() -> None:
    file = io.BytesIO(b"x" * (4 * FILE_BLOCK))

    def view(environ: dict[str, Any]) -> HttpResponse | FileResponse:
        return FileResponse(file) if environ["PATH_INFO"] == "/file" else HttpResponse(b"quick")

    async def scenario(bridge: WSGIBridge) -> None:
        resumed = asyncio.Event()

        async def take(_message: dict[str, Any]) -> None:
            if len(client.reply.messages) == 2:
                await resumed.wait()

        client = Client(before_taking=take)
        slow = asyncio.create_task(bridge(request_scope("/file"), client.receive, client.send))
        await async_until(lambda: len(client.reply.messages) >= 2)
        assert (await ask(bridge, "/quick")).body == b"quick"
        assert not client.reply.finished
        resumed.set()
        await slow
        assert len(client.reply.body) == 4 * FILE_BLOCK

    on_bridge(view, scenario, threads=1)


def test_a_file_is_not_read_further_after_a_disconnect() -> None:
    file = io.BytesIO(b"x" * (100 * FILE_BLOCK))

    async def scenario(bridge: WSGIBridge) -> int:
        async def take(_message: dict[str, Any]) -> None:
            if len(client.reply.messages) == 2:
                client.departed.set()

        client = Client(before_taking=take)
        await bridge(request_scope(), client.receive, client.send)
        return len(client.reply.messages)

    assert on_bridge(lambda _: FileResponse(file), scenario) < 10
    assert file.closed
