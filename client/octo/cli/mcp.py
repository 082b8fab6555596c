"""`octo mcp`."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from octo.cli.exit_codes import UsageError
from octo.cli.output import Output


def mcp(arguments: Any, output: Output) -> int:
    try:
        from octo.mcp.stdio import serve
    except ModuleNotFoundError as missing:
        raise UsageError(f"`octo mcp` needs the extra `mcp` of this package ({missing}).") from None
    from octo.async_client import AsyncClient

    async def run() -> None:
        async with AsyncClient(
            arguments.url, token_file=arguments.token_file, profile=arguments.profile, program="octo-mcp"
        ) as client:
            await serve(
                client,
                session_ttl=arguments.session_ttl,
                owner=arguments.owner or os.environ.get("OCTO_OWNER") or None,
            )

            # Not an ordinary end, which would wait for the thread that reads standard input.
        os._exit(0)

    asyncio.run(run())
    return 0
