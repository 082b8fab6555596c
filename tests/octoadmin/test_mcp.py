"""The start of /mcp, which waits for its first request; tests/client/test_mcp.py has what it answers then."""

import asyncio
import sys

from octoadmin.mcp import create_mcp_endpoint
from tests.octoadmin.asgi_client import ask


async def refuse(scope, receive, send) -> None:
    """An API that accepts no token."""
    await send({"type": "http.response.start", "status": 401, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


def test_a_start_that_failed_is_tried_again_by_the_next_request(monkeypatch) -> None:
    endpoint = create_mcp_endpoint(refuse)
    assert endpoint is not None

    async def ask_before_and_after() -> int:
        with monkeypatch.context() as without_packages:
            without_packages.setitem(sys.modules, "octoadmin.mcp.application", None)
            failed = await asyncio.gather(
                *(ask(endpoint, "/mcp", asgi={"version": "3.0"}) for _ in range(2)), return_exceptions=True
            )
        assert [type(error) for error in failed] == [ModuleNotFoundError] * 2
        reply = await ask(endpoint, "/mcp", asgi={"version": "3.0"})
        await endpoint.stop()
        return reply.status

    assert asyncio.run(ask_before_and_after()) == 401
