"""The MCP endpoint, /mcp: the tools of `octo.mcp`, served over HTTP and run against this server's own API."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from octoadmin.http.asgi_types import Application

if TYPE_CHECKING:
    from octoadmin.mcp.application import McpApplication


def create_mcp_application(api: Application) -> "McpApplication | None":
    """None without the packages of the extra `mcp`: then /mcp is an unknown path."""
    if find_spec("mcp") is None or find_spec("octo") is None:
        return None
    from octoadmin.mcp.application import McpApplication

    return McpApplication(api)
