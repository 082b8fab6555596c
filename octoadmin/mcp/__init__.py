"""The MCP endpoint, /mcp: the tools of `octo.mcp`, served over HTTP and run against this server's own API."""

import asyncio
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from octoadmin.http.asgi_types import Application, Receive, Scope, Send

if TYPE_CHECKING:
    from octoadmin.mcp.application import McpApplication


class McpEndpoint:
    """Starts with the first request: importing the protocol takes a third of the server's start, and few servers use
    it."""

    def __init__(self, api: Application) -> None:
        self._api = api
        self._starting: asyncio.Task[McpApplication] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        starting = self._starting
        # A client that disconnects must not cancel the start for the others.
        try:
            application = await asyncio.shield(starting)
        except Exception:
            # The next request tries again, or already does.
            if self._starting is starting:
                self._starting = None
            raise
        await application(scope, receive, send)

    async def _start(self) -> "McpApplication":
        module = await asyncio.to_thread(import_module, "octoadmin.mcp.application")
        application: McpApplication = module.McpApplication(self._api)
        await application.start()
        return application

    async def stop(self) -> None:
        if self._starting is not None:
            with suppress(Exception):
                await (await self._starting).stop()


def create_mcp_endpoint(api: Application) -> McpEndpoint | None:
    """None without the packages of the extra `mcp`: then /mcp is an unknown path."""
    if find_spec("mcp") is None or find_spec("octo") is None:
        return None
    return McpEndpoint(api)
