"""An answer that a view begins on its thread and that goes on on the event loop, for as long as the client stays."""

from collections.abc import Awaitable, Callable
from typing import Any

from django.http import HttpResponse

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
GoOn = Callable[[Receive, Send], Awaitable[None]]
Later = Callable[[Receive], Awaitable[tuple[int, bytes]]]


class LoopStreamingResponse(HttpResponse):
    """Status and headers are the response's own; `go_on` sends the body and ends it. By then the thread and its
    database connection serve somebody else."""

    def __init__(self, go_on: GoOn, **options: Any) -> None:
        super().__init__(**options)
        self.go_on = go_on


class DeferredResponse(HttpResponse):
    """Answered later: `later` waits on the event loop and returns status and body, or raises a refusal, or Gone. The
    headers are the response's own."""

    def __init__(self, later: Later, **options: Any) -> None:
        super().__init__(**options)
        self.later = later
