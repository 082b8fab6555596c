"""A head that was read before is not read again, and nobody can tell."""

import asyncio
from typing import Any

import pytest
import uvicorn
from hypothesis import example, given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState

from locks import token_format
from octoadmin.serving import known_heads
from octoadmin.serving.asgi_types import Receive, Scope, Send
from octoadmin.serving.connection import Connection, Exchange
from octoadmin.serving.known_heads import KnownHeads
from tests.octoadmin.fast_lane.lanes import HOST, Lanes, on_lanes
from tests.octoadmin.http_client import connected, head_of, read_reply

ANNA = b"Host: a\r\nAuthorization: Bearer anna\r\n"
BEN = b"Host: a\r\nAuthorization: Bearer ben\r\n"
FULL = b"/locks/full"


def told(scope: Scope, body: bytes) -> bytes:
    """All that somebody has to know who answers."""
    known = (scope["method"], scope["raw_path"], scope["query_string"], scope["http_version"], scope["headers"])
    return repr((*known, body)).encode()


class Asked(Exchange):
    def __init__(self, lane: "ToldLane", connection: Connection, method: str, target: bytes) -> None:
        super().__init__(connection, method, target)
        self.lane = lane

    def arrived(self) -> None:
        if self.scope["raw_path"] == FULL:
            self.answer(503, b"lane: yes\r\n", b"")
        else:
            self.lane.open_ones.append(self)

    def late(self) -> None:
        raise AssertionError


class ToldLane:
    """Takes what is about locks, and answers when it is told to; but one of them is refused at once."""

    def __init__(self) -> None:
        self.open_ones: list[Asked] = []

    def open(self, connection: Connection, method: str, target: bytes) -> Exchange | None:
        chunked = any(name == b"transfer-encoding" for name, _ in connection.scope["headers"])
        return Asked(self, connection, method, target) if target.startswith(b"/locks/") and not chunked else None

    def answer(self) -> None:
        for one in self.open_ones:
            one.answer(200, b"lane: yes\r\n", told(one.scope, one.body))
        self.open_ones.clear()


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def others(scope: Scope, receive: Receive, send: Send) -> None:
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    content = told(scope, body)
    headers = [(b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


class Forgetful(KnownHeads):
    def find(self, data: bytes) -> None:
        return None


async def talk(steps: list[bytes | None], *, memory: KnownHeads | None) -> tuple[bytes, bool]:
    """What is answered to these pieces, one after the other; None is a moment in which the lane answers."""
    config = uvicorn.Config(others, http=Connection, ws="none", lifespan="off", log_config=None, access_log=False)
    config.load()
    lane, wire = ToldLane(), Wire()
    connection = Connection(config, ServerState(), {"lane": lane})
    if memory is not None:
        connection.known_heads = memory
    connection.connection_made(wire)
    for step in [*steps, None, None]:
        if step is None:
            lane.answer()
        elif not wire.closed:
            connection.data_received(step)
        for _ in range(8):
            await asyncio.sleep(0)
    closed = wire.closed
    connection.connection_lost(None)
    return wire.written, closed


def request(line: bytes, headers: bytes, body: bytes, *, length: int | None = None) -> bytes:
    announced = b"Content-Length: %d\r\n" % (len(body) if length is None else length) if body or length else b""
    return line + b"\r\n" + headers + announced + b"\r\n" + body


LINES = [
    b"GET /locks/a HTTP/1.1", b"POST /locks/a HTTP/1.1", b"POST /locks/full HTTP/1.1", b"POST /other HTTP/1.1",
    b"POST /locks/b%2Fc HTTP/1.1", b"GET /locks/" + b"a" * 70_000 + b" HTTP/1.1",
    b"GET /locks/a?q=1 HTTP/1.1", b"GET /locks/a HTTP/1.0", b"PUT /locks/a HTTP/1.1", b"get /locks/a HTTP/1.1",
    b"GET  /locks/a HTTP/1.1", b"GET /locks/\xc3\xa4 HTTP/1.1", b"", b"nonsense",
]  # fmt: skip
HEADERS = [
    b"", ANNA, ANNA, BEN, ANNA + b"Connection: close\r\n", ANNA + b"Expect: 100-continue\r\n",
    ANNA + b"X-A: b\r\n c\r\n",
    ANNA + b"Connection: upgrade\r\nUpgrade: h2c\r\n", ANNA + b"Transfer-Encoding: chunked\r\n", b"Bad Name: x\r\n",
    ANNA + b"X-Long: " + b"x" * known_heads.MAX_HEAD + b"\r\n",
]  # fmt: skip
BODIES = [b"", b"", b"{}", b'{"a":1}', b"GET /locks/a HTTP/1.1\r\nHost: a\r\n\r\n", b"\r\n\r\n"]
GET_ANNA, GET_BEN = (request(LINES[0], who, b"") for who in (ANNA, BEN))
AHEAD = request(LINES[1], ANNA, b"", length=len(GET_BEN))
REQUESTS = st.builds(
    request,
    st.sampled_from(LINES[:3]) | st.sampled_from(LINES),
    st.sampled_from(HEADERS[:4]) | st.sampled_from(HEADERS),
    st.sampled_from(BODIES),
    length=st.none() | st.none() | st.integers(0, 9),
)


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes | None]:
    """Some ask again in the same words; some send in pieces, or without waiting."""
    words = draw(st.lists(REQUESTS, min_size=1, max_size=3))
    steps: list[bytes | None] = []
    for _ in range(draw(st.integers(2, 9))):
        said = draw(st.sampled_from(words))
        match draw(st.sampled_from(["whole", "whole", "whole", "cut", "joined"])):
            case "whole":
                steps.append(said)
            case "cut":
                place = draw(st.integers(1, max(1, len(said) - 1)))
                steps += [said[:place], said[place:]]
            case "joined":
                steps.append(said + draw(st.sampled_from(words)))
        if draw(st.integers(0, 3)):
            steps.append(None)
    return [step for step in steps if step is None or step]


@settings(max_examples=400, deadline=None)
@given(conversations())
# The head has no end; two heads at once, of different people and with as short a body; a line before the first one; the
# first of two is answered at once; its body comes later, and looks like a request; there are no headers; a long path.
@example([*[GET_ANNA, None] * 3, GET_ANNA[:-4]])
@example([GET_ANNA, None, GET_ANNA, GET_BEN, None, GET_BEN, None])
@example([GET_ANNA, None, b"\r\n" + GET_ANNA, None, LINES[0] + b"\r\n" + GET_ANNA])
@example([GET_BEN, None, request(LINES[2], ANNA, b"") + GET_BEN, None, GET_ANNA, None])
@example([GET_BEN, None, request(LINES[2], ANNA, GET_BEN) + GET_BEN, None, AHEAD, None, GET_BEN])
@example([GET_BEN, None, request(LINES[0], b"", b"") + GET_ANNA, None, request(LINES[0], b"", b"") + GET_ANNA, None])
@example([*[GET_ANNA, None] * 3, request(LINES[5], ANNA, b"")])
def test_with_and_without_memory_the_same_is_understood(steps: list[bytes | None]) -> None:
    remembered = asyncio.run(talk(steps, memory=None))
    read_anew = asyncio.run(talk(steps, memory=Forgetful()))
    assert _without_ids(remembered) == _without_ids(read_anew)


def _without_ids(answered: tuple[bytes, bool]) -> tuple[list[bytes], bool]:
    """Each refusal has a new id."""
    return [part[32:] for part in answered[0].split(b"req_")], answered[1]


def test_who_wants_to_leave_may_leave() -> None:
    leaving = request(LINES[0], ANNA + b"Connection: close\r\n", b"")
    for steps, closed in [([GET_ANNA, None] * 3, False), ([*[GET_ANNA, None] * 3, leaving], True)]:
        assert asyncio.run(talk(steps, memory=None))[1] is closed


def test_a_head_is_known_from_its_third_time_on() -> None:
    class Counting(KnownHeads):
        found = 0

        def find(self, data: bytes) -> Any:
            said = super().find(data)
            self.found += said is not None
            return said

    # The first comes while the connection is still new.
    memory = Counting()
    asyncio.run(talk([request(LINES[1], ANNA, b"{}"), None] * 5, memory=memory))
    assert memory.found == 3


def test_little_is_remembered() -> None:
    memory = KnownHeads()
    for number in range(50):
        said = request(LINES[1], b"X-Number: %d\r\n" % number, b"")
        memory.remember(said, {"number": number}, body_length=0)
        found = memory.find(said)
        assert found is not None
        assert found.scope == {"number": number}
        assert len(memory._known) <= known_heads.MAX_HEADS
    memory.remember(long := request(LINES[1], HEADERS[-1], b""), {}, body_length=0)
    assert memory.find(long) is None


@pytest.mark.usefixtures("committed")
class TestLanes:
    """With a real lane, whose combiners can be away."""

    def test_another_token_on_the_same_connection_is_another_caller(self, worker_token: str) -> None:
        async def speak(lanes: Lanes) -> None:
            right, wrong = lanes.words()[0], [HOST, (b"authorization", f"Bearer {token_format.generate()}".encode())]
            said = [(right, 200), (right, 200), (right, 200), (wrong, 401), (wrong, 401), (right, 200)]
            async with connected(lanes.port) as (reader, writer):
                for headers, status in said:
                    writer.write(head_of("POST", "/locks/a/acquire", headers))
                    assert (await read_reply(reader)).status == status

        on_lanes(worker_token, speak)

    def test_who_is_refused_at_once_is_not_taken_for_whoever_comes_behind(self, worker_token: str) -> None:
        async def speak(lanes: Lanes) -> None:
            right, wrong = lanes.words()[0], [HOST, (b"authorization", f"Bearer {token_format.generate()}".encode())]
            async with connected(lanes.port) as (reader, writer):
                writer.write(head_of("GET", "/locks/a", right))
                assert (await read_reply(reader)).status == 200
                acquires = lanes.fast._ways["acquire"].combiner
                acquires._away_until = asyncio.get_running_loop().time() + 60
                writer.write(head_of("POST", "/locks/a/acquire", wrong) + head_of("GET", "/locks/a", right))
                assert [(await read_reply(reader)).status for _ in range(2)] == [503, 200]
                acquires._away_until = 0
                writer.write(head_of("POST", "/locks/a/acquire", wrong))
                assert (await read_reply(reader)).status == 401

        on_lanes(worker_token, speak)
