"""The MCP endpoint, /mcp: the tools of `octo.mcp`, served over HTTP and run against this server's own API."""

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING

from octoadmin.http.asgi_types import Application, Receive, Scope, Send

if TYPE_CHECKING:
    from octoadmin.mcp.application import McpApplication


def create_mcp_application(api: Application) -> "McpLoader | None":
    """None without the packages of the extra `mcp`: then /mcp is an unknown path."""
    if find_spec("mcp") is None or find_spec("octo") is None:
        return None
    return McpLoader(api)


class McpLoader:
    """Loads the application on a thread once the server has started: its imports are a third of all, and after a crash
    the locks should not wait for them. The first requests do."""

    def __init__(self, api: Application) -> None:
        self._api = api
        self._loading: asyncio.Task[McpApplication] | None = None

    async def start(self) -> None:
        self._loading = asyncio.create_task(self._load())

    async def _load(self) -> "McpApplication":
        application = await asyncio.to_thread(_create, self._api)
        await application.start()
        return application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._loading is not None
        application = await asyncio.shield(self._loading)
        await application(scope, receive, send)

    async def stop(self) -> None:
        if self._loading is not None:
            await (await self._loading).stop()


def _create(api: Application) -> "McpApplication":
    from octoadmin.mcp.application import McpApplication

    return McpApplication(api)
