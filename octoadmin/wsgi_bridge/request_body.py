"""Reads a request's body, within limits of size and time."""

import asyncio
from collections import Counter

from django.core.handlers.wsgi import get_path_info
from django.urls import Resolver404, resolve

from locks.api.authentication import check_credentials
from locks.api.base_view import ApiView
from locks.api.errors import ApiError, invalid_input, overloaded
from locks.services.networks import network_of
from octoadmin.http.asgi_types import ClientGone, Receive, Scope
from octoadmin.wsgi_bridge.environ import Environ

# More than any page or endpoint accepts; the API has a lower limit of its own.
MAX_BODY = 1024 * 1024
# Up to this length, a body is read before anything is known about its sender.
MAX_UNCHECKED_BODY = 8 * 1024
BODY_SECONDS = 30.0
MAX_BYTES = 64 * 1024 * 1024
MAX_BYTES_PER_NETWORK = 8 * 1024 * 1024


class BodyBudget:
    """Bounds the bytes of bodies that a process keeps in memory, however many connections send them slowly: in all, and
    for each owner, such as a network, so that one client cannot use up the memory of all others."""

    def __init__(self, max_bytes: int = MAX_BYTES, max_bytes_per_owner: int = MAX_BYTES_PER_NETWORK) -> None:
        self._left = max_bytes
        self._max_bytes_per_owner = max_bytes_per_owner
        self._taken: Counter[str] = Counter()

    def take(self, owner: str, size: int) -> None:
        if size > self._left or self._taken[owner] + size > self._max_bytes_per_owner:
            raise overloaded()
        self._left -= size
        self._taken[owner] += size

    def give_back(self, owner: str, size: int) -> None:
        self._left += size
        self._taken[owner] -= size
        if not self._taken[owner]:
            del self._taken[owner]


def check_head(environ: Environ, length: int | None) -> int:
    """The size that the body may have, judged from the head alone: the route decides, and a request to the API needs a
    token that may be valid. Raises ApiError."""
    if length is not None and length <= MAX_UNCHECKED_BODY:
        return MAX_BODY
    try:
        view = getattr(resolve(get_path_info(environ)).func, "view_class", None)
    except Resolver404:
        view = None
    max_body = MAX_BODY
    if view is not None and issubclass(view, ApiView):
        check_credentials(environ.get("HTTP_AUTHORIZATION", ""), environ.get("REMOTE_ADDR"))
        max_body = view.max_body
    if length is not None and length > max_body:
        raise _too_large(max_body)
    return max_body


async def read_body(scope: Scope, environ: Environ, receive: Receive, budget: BodyBudget) -> bytes:
    """Raises ApiError and ClientGone. The body counts against the budget until the caller gives it back."""
    announced: str | None = environ.get("CONTENT_LENGTH")
    if announced is None and "HTTP_TRANSFER_ENCODING" not in environ and scope["http_version"] < "2":
        return b""
    if environ.get("HTTP_TRANSFER_ENCODING", "chunked").strip().lower() != "chunked":
        raise invalid_input(400, "Send the body with a Content-Length, or with 'Transfer-Encoding: chunked'.")
    length = int(announced) if announced and announced.isdecimal() and len(announced) < 20 else None
    max_body = check_head(environ, length)
    network = network_of(environ.get("REMOTE_ADDR"))
    return await read_within(receive, budget, owner=network, length=length, max_body=max_body)


async def read_within(receive: Receive, budget: BodyBudget, *, owner: str, length: int | None, max_body: int) -> bytes:
    """As `read_body`; the body counts as its owner's."""
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
                budget.take(owner, len(chunk))
                chunks.append(chunk)
                size += len(chunk)
                if size > max_body:
                    raise _too_large(max_body)
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        budget.give_back(owner, size)
        raise invalid_input(400, f"Send the whole body within {BODY_SECONDS:g} seconds.") from None
    except (ApiError, ClientGone, asyncio.CancelledError):
        budget.give_back(owner, size)
        raise
    return b"".join(chunks)


def _too_large(max_body: int) -> ApiError:
    return invalid_input(413, f"The body may have at most {max_body} bytes.")
