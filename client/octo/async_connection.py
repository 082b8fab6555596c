"""What an asynchronous client consists of: a transport, and the task that keeps leases."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from octo import settings
from octo.connection import RETRY_SECONDS
from octo.http_async import AsyncTransport, perform
from octo.keeping import Book, keep
from octo.steps import Call
from octo.tenure import Tenure

if TYPE_CHECKING:
    from typing_extensions import Self

Result = TypeVar("Result")


class AsyncConnection:
    """One task renews everything, and only while there is something to renew."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        token_file: str | os.PathLike[str] | None = None,
        allow_http: bool | None = None,
        retry_for: float = RETRY_SECONDS,
        program: str | None = None,
    ) -> None:
        self.settings = settings.resolve(url=url, token=token, token_file=token_file, allow_http=allow_http)
        self.retry_for = retry_for
        self.transport = AsyncTransport(url=self.settings.url, token=self.settings.token, program=program)
        self._book = Book()
        self._changed = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """What is still held is not renewed any more, and runs out."""
        self._book.clear()
        self._changed.set()
        if self._keeper is not None:
            await self._keeper
        await self.transport.close()

    async def perform(self, call: Call[Result]) -> Result:
        return await perform(call, self.transport.send)

    def keep(self, tenure: Tenure) -> None:
        self._book.add(tenure)
        if self._keeper is None:
            self._keeper = asyncio.get_running_loop().create_task(self._run(), name="octo-keeper")
        self._changed.set()

    def stop_keeping(self, tenure: Tenure) -> None:
        self._book.discard(tenure)
        self._changed.set()

    async def _run(self) -> None:
        try:
            while not self._book.is_empty():
                await perform(keep(self._book), self.transport.send, self._pause)
        finally:
            self._keeper = None

    async def _pause(self, seconds: float) -> None:
        self._changed.clear()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._changed.wait(), max(0.0, seconds))
