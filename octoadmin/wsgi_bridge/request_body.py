"""Reads a request's body, within limits of size and time."""

import asyncio

from locks.api.errors import ApiError, invalid_input, overloaded
from octoadmin.http.asgi_types import ClientGone, Receive, Scope
from octoadmin.wsgi_bridge.environ import Environ

# More than any page or endpoint accepts; the API has a lower limit of its own.
MAX_BODY = 1024 * 1024
BODY_SECONDS = 30.0
MAX_BYTES = 64 * 1024 * 1024


class BodyBudget:
    """Bounds the bytes of bodies that a process keeps in memory, however many connections send them slowly."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._left = max_bytes

    def take(self, size: int) -> None:
        if size > self._left:
            raise overloaded()
        self._left -= size

    def give_back(self, size: int) -> None:
        self._left += size


async def read_body(scope: Scope, environ: Environ, receive: Receive, budget: BodyBudget) -> bytes:
    """Raises ApiError and ClientGone. The body counts against the budget until the caller gives it back."""
    announced: str | None = environ.get("CONTENT_LENGTH")
    if announced is None and "HTTP_TRANSFER_ENCODING" not in environ and scope["http_version"] < "2":
        return b""
    length = int(announced) if announced and announced.isdecimal() and len(announced) < 20 else None
    if length is not None and length > MAX_BODY:
        raise _too_large()
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            # With the length known, no further message has to be awaited to learn that this was all.
            while size != length:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone if size == 0 else invalid_input(400, "The body ended before its announced length.")
                chunk = message.get("body", b"")
                budget.take(len(chunk))
                chunks.append(chunk)
                size += len(chunk)
                if size > MAX_BODY:
                    raise _too_large()
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        budget.give_back(size)
        raise invalid_input(400, f"Send the whole body within {BODY_SECONDS:g} seconds.") from None
    except (ApiError, ClientGone, asyncio.CancelledError):
        budget.give_back(size)
        raise
    return b"".join(chunks)


def _too_large() -> ApiError:
    details = f"Send at most {MAX_BODY} bytes."
    return invalid_input(413, details)
