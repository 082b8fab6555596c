"""The API as its callers see it: method, path, token, JSON. Through Django's test client; or, where a test says that it
is to run on both lanes, through the fast lane as well, as the server does it."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from locks.api.limits import limits
from locks.api.usage_flusher import usage
from tests.octoadmin import http_client
from tests.octoadmin.fast_lane.lanes import running_lanes

Call = Callable[..., HttpResponse]


@pytest.fixture(autouse=True)
def _fresh_process_state() -> None:
    limits.reset()
    usage.forget()


@pytest.fixture(params=["sync lane", "fast lane"])
def lane(request: pytest.FixtureRequest) -> Iterator["Talk | None"]:
    """For `usefixtures`: the test runs once on each. The fast lane has connections of its own, which see only what is
    committed."""
    if request.param == "sync lane":
        request.getfixturevalue("db")
        yield None
        return
    request.getfixturevalue("committed")
    with asyncio.Runner() as runner:
        running = running_lanes()
        lanes = runner.run(running.__aenter__())
        yield Talk(runner, lanes.port)
        runner.run(running.__aexit__(None, None, None))


@dataclass
class Talk:
    """With the server that has both lanes, for a test that is not asynchronous itself."""

    runner: asyncio.Runner
    port: int

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> "LaneAnswer":
        fields = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        return LaneAnswer(self.runner.run(http_client.ask(self.port, method, path, fields, pieces=[body])))


@dataclass
class LaneAnswer:
    """With the words of Django's own."""

    reply: http_client.Reply

    @property
    def status_code(self) -> int:
        return self.reply.status

    @property
    def content(self) -> bytes:
        return self.reply.body

    @property
    def headers(self) -> dict[str, str]:
        return {name.title(): value for name, value in self.reply.headers.items()}

    def json(self) -> Any:
        return self.reply.json

    def __getitem__(self, name: str) -> str:
        return self.reply.headers[name.lower()]


@pytest.fixture
def call(request: pytest.FixtureRequest, operator_token: str) -> Call:
    """call("POST", "/locks/a/acquire", {"ttl_seconds": 60}) with a token that may do everything to locks."""
    talk: Talk | None = request.getfixturevalue("lane") if "lane" in request.fixturenames else None

    def ask(
        method: str, path: str, body: Any = None, *, token: str | None = operator_token, raw: bytes | None = None,
        content_type: str = "application/json", **headers: str,
    ) -> HttpResponse | LaneAnswer:  # fmt: skip
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        data = raw if raw is not None else json.dumps(body).encode() if body is not None else b""
        if talk is not None:
            fields = {"Host": "testserver", **headers}
            if data:
                fields |= {"Content-Type": content_type, "Content-Length": str(len(data))}
            return talk.ask(method, path, fields, data)
        return Client(raise_request_exception=False).generic(
            method, path, data, content_type=content_type if data else "", headers=headers
        )

    return ask
