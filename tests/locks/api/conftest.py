"""Calls of the API through Django's test client; for tests with the fixture `each_path`, also through the fast path."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from locks.api.limits import limits
from locks.api.usage_flusher import usage_flusher
from tests.octoadmin import http_client
from tests.octoadmin.batching.both_paths import running_paths

Call = Callable[..., HttpResponse]


@pytest.fixture(autouse=True)
def _fresh_process_state() -> None:
    limits.reset()
    usage_flusher.reset()


@pytest.fixture(params=["django", "fast path"])
def each_path(request: pytest.FixtureRequest) -> Iterator["FastPathClient | None"]:
    """For `usefixtures`: runs the test on both paths. The fast path has its own connections, which see committed rows
    only."""
    if request.param == "django":
        request.getfixturevalue("db")
        yield None
        return
    request.getfixturevalue("committed")
    with asyncio.Runner() as runner:
        running = running_paths()
        paths = runner.run(running.__aenter__())
        yield FastPathClient(runner, paths.port)
        runner.run(running.__aexit__(None, None, None))


@dataclass
class FastPathClient:
    """A synchronous client of a server with the fast path."""

    runner: asyncio.Runner
    port: int

    def send(self, method: str, path: str, headers: dict[str, str], body: bytes) -> "FastPathResponse":
        fields = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        return FastPathResponse(self.runner.run(http_client.ask(self.port, method, path, fields, pieces=[body])))


@dataclass
class FastPathResponse:
    """With the interface of Django's response."""

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
    """call("POST", "/locks/a/acquire", {"ttl_seconds": 60}) with all scopes for locks."""
    is_parametrized = "each_path" in request.fixturenames
    client: FastPathClient | None = request.getfixturevalue("each_path") if is_parametrized else None

    def send(
        method: str, path: str, body: Any = None, *, token: str | None = operator_token, raw: bytes | None = None,
        content_type: str = "application/json", **headers: str,
    ) -> HttpResponse | FastPathResponse:  # fmt: skip
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        data = raw if raw is not None else json.dumps(body).encode() if body is not None else b""
        if client is not None:
            fields = {"Host": "testserver", **headers}
            if data:
                fields |= {"Content-Type": content_type, "Content-Length": str(len(data))}
            return client.send(method, path, fields, data)
        return Client(raise_request_exception=False).generic(
            method,
            path,
            data,
            content_type=content_type if data else "",
            headers=headers,
            RAW_URI=path.partition("?")[0],
        )

    return send
