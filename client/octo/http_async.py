"""Requests over aiohttp, and what drives calls on an event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from octo import clock
from octo.errors import ConfigurationProblem, Unreachable
from octo.http_blocking import CONNECT_SECONDS
from octo.steps import Call, Pause, Request, Response
from octo.user_agent import headers_for

try:
    import aiohttp
    import yarl
except ImportError as problem:
    raise ConfigurationProblem("AsyncClient needs aiohttp: pip install 'octo[async]'") from problem

Result = TypeVar("Result")


class AsyncTransport:
    """Belongs to the event loop that first uses it."""

    def __init__(self, *, url: str, token: str, program: str | None = None) -> None:
        self._url = url
        self._headers = headers_for(token=token, program=program)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> Response:
        try:
            return await self._send_once(request)
        except Unreachable as problem:
            # A kept connection that the server had closed meanwhile.
            if not (request.repeatable and isinstance(problem.__cause__, aiohttp.ServerDisconnectedError)):
                raise
        try:
            return (await self._send_once(request))._replace(repeated=True)
        except Unreachable as problem:
            problem.may_have_arrived = True
            raise

    async def _send_once(self, request: Request) -> Response:
        sent_at = clock.now()
        timeout = aiohttp.ClientTimeout(total=request.timeout, sock_connect=CONNECT_SECONDS)
        try:
            async with self._request(request, timeout) as answer:
                content = await answer.read()
                return self._response(answer, content, sent_at)
        except aiohttp.ClientConnectorError as problem:
            raise Unreachable(_why(problem), may_have_arrived=False) from problem
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as problem:
            raise Unreachable(_why(problem)) from problem

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[tuple[Response, AsyncIterator[bytes]]]:
        """The lines of an answer as they come. `timeout` is the longest silence."""
        sent_at = clock.now()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=request.timeout)
        try:
            async with self._request(request, timeout) as answer:
                content = b"" if answer.status == 200 else await answer.read()
                yield self._response(answer, content, sent_at), _lines(answer)
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as problem:
            raise Unreachable(_why(problem)) from problem

    def _request(self, request: Request, timeout: aiohttp.ClientTimeout) -> Any:
        if self._session is None:
            # The environment's proxies count; redirects are not followed, as a token would go along.
            self._session = aiohttp.ClientSession(trust_env=True)
        body = None
        headers = {**self._headers, **request.headers}
        if request.body is not None:
            body = json.dumps(request.body).encode()
            headers["Content-Type"] = "application/json"
        # Sent as it is: a slash in a name must stay %2F.
        url = yarl.URL(self._url + request.path, encoded=True)
        return self._session.request(
            request.method, url, data=body, headers=headers, timeout=timeout, allow_redirects=False
        )

    @staticmethod
    def _response(answer: aiohttp.ClientResponse, content: bytes, sent_at: float) -> Response:
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Response(answer.status, headers, content, sent_at)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    while line := await answer.content.readline():
        yield line


def _why(problem: BaseException) -> str:
    if isinstance(problem, asyncio.TimeoutError):
        return "The server took too long to answer."
    return f"The server cannot be reached: {problem or type(problem).__name__}."


async def perform(
    call: Call[Result],
    send: Callable[[Request], Awaitable[Response]],
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> Result:
    """Drives a call to its end on this task."""
    try:
        step = next(call)
        while True:
            if isinstance(step, Pause):
                await pause(step.seconds)
                step = call.send(None)
                continue
            try:
                response = await send(step)
            except Unreachable as problem:
                step = call.throw(problem)
            else:
                step = call.send(response)
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        call.close()
