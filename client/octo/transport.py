"""Requests over httpx, each within one time limit from connecting to the last byte."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from octo import __version__, clock
from octo.config import Settings, is_loopback
from octo.errors import ConfigurationError, TransportError
from octo.protocol import Request, Response

CONNECT_SECONDS = 5.0
MAX_BODY = 64 * 1024 * 1024
# Anything else that goes wrong may have gone wrong after the server had the request.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Transport:
    """Belongs to the event loop that first uses it."""

    def __init__(
        self, settings: Settings, *, program: str | None = None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        python = f"Python/{sys.version_info.major}.{sys.version_info.minor}"
        self._settings = settings
        self._program = program
        self._transport = transport
        self._headers = {
            **({"Authorization": f"Bearer {settings.token}"} if settings.token else {}),
            "User-Agent": " ".join(filter(None, (f"octo/{__version__}", python, program))),
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        self._client: httpx.AsyncClient | None = None

    def reopened(self, settings: Settings | None = None) -> Transport:
        """The same, with connections of its own."""
        return Transport(settings or self._settings, program=self._program, transport=self._transport)

    async def send(self, request: Request) -> Response:
        sent_at = clock.now()
        try:
            if sys.version_info < (3, 11):
                return await asyncio.wait_for(self._send(request, sent_at), request.timeout)
            # Unlike wait_for before Python 3.12, it never loses a cancellation.
            async with asyncio.timeout(request.timeout):
                return await self._send(request, sent_at)
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError, asyncio.TimeoutError) as problem:
            raise _error(problem) from problem

    async def _send(self, request: Request, sent_at: float) -> Response:
        timeout = httpx.Timeout(request.timeout, connect=min(CONNECT_SECONDS, request.timeout))
        async with self._open(request, timeout) as answer:
            content = bytearray()
            async for chunk in answer.aiter_bytes():
                content += chunk
                if len(content) > MAX_BODY:
                    raise TransportError("The answer is longer than any of the lock API.")
            return Response(answer.status_code, answer.headers, bytes(content), sent_at)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[tuple[Response, AsyncIterator[str]]]:
        """The lines of an answer as they come. `timeout` limits the silence between two of them."""
        sent_at = clock.now()
        try:
            async with self._open(request, httpx.Timeout(request.timeout, connect=CONNECT_SECONDS)) as answer:
                content = b"" if answer.status_code == 200 else await answer.aread()
                yield Response(answer.status_code, answer.headers, content, sent_at), answer.aiter_lines()
        except (httpx.HTTPError, httpx.StreamError, OSError) as problem:
            raise _error(problem) from problem

    def _open(self, request: Request, timeout: httpx.Timeout) -> Any:
        if self._client is None:
            self._client = self._connect()
        headers = {**self._headers, **request.headers}
        content = None
        if request.body is not None:
            content = json.dumps(request.body, separators=(",", ":")).encode()
            headers["Content-Type"] = "application/json"
        url = self._settings.url + request.path
        return self._client.stream(request.method, url, content=content, headers=headers, timeout=timeout)

    def _connect(self) -> httpx.AsyncClient:
        """Proxies come from the environment, but never for this machine. Redirects are not followed: the token would go
        along."""
        host = httpx.URL(self._settings.url).host
        # Trust is loaded only where it is used: it takes longer than a request.
        secure = self._settings.url.startswith("https:")
        try:
            return httpx.AsyncClient(
                transport=self._transport,
                http2=self._settings.http2,
                verify=self._trust() if secure else False,
                trust_env=not is_loopback(host),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=60),
            )
        except ImportError as problem:
            raise ConfigurationError(f"HTTP/2 needs the extra `http2` of this package ({problem}).") from None

    def _trust(self) -> Any:
        import ssl

        try:
            context = ssl.create_default_context(cafile=self._settings.ca_file)
            if self._settings.client_cert:
                context.load_cert_chain(self._settings.client_cert, self._settings.client_key)
        except (OSError, ssl.SSLError) as problem:
            raise ConfigurationError(f"The certificates cannot be loaded: {problem}") from None
        return context

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def _error(problem: BaseException) -> TransportError:
    maybe_sent = not isinstance(problem, _NOT_SENT)
    if isinstance(problem, asyncio.TimeoutError | httpx.TimeoutException | TimeoutError):
        return TransportError("The server took too long to answer.", maybe_sent=maybe_sent)
    return TransportError(
        f"The server cannot be reached: {str(problem) or type(problem).__name__}.", maybe_sent=maybe_sent
    )
