"""Sends the response to a request that waited on the event loop."""

import structlog

from locks.api.errors import ApiError, internal_error
from locks.async_responses import Resolve
from locks.queue.wait_queue import ClientDisconnected
from octoadmin.http.asgi_types import CLIENT_GONE_STATUS, Headers, Receive, Send

_log = structlog.stdlib.get_logger(__name__)


async def send_deferred(resolve: Resolve, *, headers: Headers, receive: Receive, send: Send, request_id: str) -> int:
    """Returns the status. `headers` are those of every response to this request, without a length."""
    try:
        status, body = await resolve(receive)
    except ClientDisconnected:
        return CLIENT_GONE_STATUS
    except Exception as error:
        if not isinstance(error, ApiError):
            _log.exception("a waiting request failed", request_id=request_id)
            error = internal_error()
        status, body = error.status, error.body(request_id=request_id)
        headers = with_error_headers(headers, error, request_id=request_id)
    await send_response(send, status, headers, body)
    return status


async def send_response(send: Send, status: int, headers: Headers, body: bytes) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


def with_error_headers(headers: Headers, error: ApiError, *, request_id: str) -> Headers:
    """The error's own headers do not replace those that are there already."""
    known = {name for name, _ in headers}
    own = [(name.lower().encode(), value.encode()) for name, value in error.headers(request_id=request_id).items()]
    return [*headers, *(pair for pair in own if pair[0] not in known)]
