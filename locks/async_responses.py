"""Responses that a view starts on its thread and the event loop finishes, for as long as the client stays.

When the loop takes over, the thread and its database connection serve other requests.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from django.http import HttpResponse

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Stream = Callable[[Receive, Send], Awaitable[None]]
Resolve = Callable[[Receive], Awaitable[tuple[int, bytes]]]


class AsyncResponse(HttpResponse):
    """`log_context` are further fields of the request's log line, which is written when the response ends."""

    log_context: dict[str, Any]


class LoopStreamingResponse(AsyncResponse):
    """Status and headers are the response's own; `stream` sends the body and ends it."""

    def __init__(self, stream: Stream, **options: Any) -> None:
        super().__init__(**options)
        self.stream = stream


class DeferredResponse(AsyncResponse):
    """`resolve` waits on the event loop and returns status and body. It raises ApiError, or ClientDisconnected if the
    client has disconnected. The headers are the response's own."""

    def __init__(self, resolve: Resolve, **options: Any) -> None:
        super().__init__(**options)
        self.resolve = resolve


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
