"""`octo mcp`: serves the tools on standard input and output. All leases belong to one session, which ends with the
process: at once if it is told to stop, within the session's TTL if it is killed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from octo.async_client import AsyncClient
from octo.mcp.server import build
from octo.mcp.tools import Call


async def serve(client: AsyncClient, *, session_ttl: int, owner: str | None) -> None:
    """Until standard input ends, or SIGTERM. The thread that reads standard input may still run afterwards."""
    is_actor = (await client.request("GET", "/whoami")).get("actor") is not None
    # An actor of a run has a session already, which all its leases end with.
    joined = client.join_run() if is_actor else client.session(ttl=session_ttl, owner=owner, metadata="octo mcp")
    async with joined as session:

        @asynccontextmanager
        async def connect(context: ServerRequestContext[Any, Any]) -> AsyncIterator[Call]:
            async def progress(share: float, message: str) -> None:
                await context.session.report_progress(share, 1.0, message)

            yield Call(client, progress, is_actor=is_actor, session_id=None if is_actor else session.session_id)

        stopping = asyncio.Event()
        with suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
        serving = asyncio.create_task(_serve(build(connect)))
        await asyncio.wait({serving, asyncio.create_task(stopping.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()


async def _serve(server: Server[Any]) -> None:
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())
