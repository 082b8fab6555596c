"""Sends the answer to a request that waits on the event loop, when there is one."""

import structlog

from locks.api.errors import ApiError, internal_error
from locks.async_responses import Later
from locks.queue.wait_queue import ClientDisconnected
from octoadmin.serving.asgi_types import Headers, Receive, Send

_log = structlog.stdlib.get_logger(__name__)


async def answer_later(later: Later, *, headers: Headers, receive: Receive, send: Send, request_id: str) -> None:
    """The headers are those that surround every answer, without the length of this one."""
    try:
        status, body = await later(receive)
    except ClientDisconnected:
        return
    except Exception as error:
        if not isinstance(error, ApiError):
            _log.exception("a waiting request failed", request_id=request_id)
            error = internal_error()
        status, body = error.status, error.body(request_id=request_id)
        headers = with_refusal(headers, error, request_id=request_id)
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


def with_refusal(headers: Headers, refusal: ApiError, *, request_id: str) -> Headers:
    """And those that the refusal brings along, where it says something that they do not."""
    known = {name for name, _ in headers}
    own = [(name.lower().encode(), value.encode()) for name, value in refusal.headers(request_id=request_id).items()]
    return [*headers, *(pair for pair in own if pair[0] not in known)]
