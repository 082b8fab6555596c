"""The types of ASGI."""

from collections.abc import Awaitable, Callable
from typing import Any

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


class ClientGone(Exception):
    """The client has disconnected, so no response can be sent."""


# What the log and the metrics show for a request whose client has disconnected, as nginx does.
CLIENT_GONE_STATUS = 499
