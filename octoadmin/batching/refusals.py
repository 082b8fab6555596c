"""Refuses requests without a token that may be valid, and those over their limit, before a Django thread handles them.

So a flood of refusals costs less than the requests that are served. The responses are those of the views, by the same
functions.
"""

import asyncio
import time
from functools import lru_cache

from django.urls import Resolver404, resolve

from locks.api.authentication import TokenAuthentication, TokenFormatAuthentication
from locks.api.base_view import ApiView
from locks.api.errors import ApiError, new_request_id
from locks.api.limits import limits
from octoadmin.batching.head import Fallback, Unauthenticated, parse_head
from octoadmin.batching.static_headers import static_headers
from octoadmin.http.asgi_types import Application, Receive, Scope, Send
from octoadmin.http.deferred import send_response, with_error_headers
from octoadmin.http.request_log import is_logged, log_request
from octoadmin.monitoring.request_metrics import count_request

# A client that sends its next request after each answer floods the server no faster than this. It holds no thread.
REFUSAL_SECONDS = 0.1

_headers = lru_cache(maxsize=128)(static_headers)


class Refusals:
    def __init__(self, fallback: Application) -> None:
        self._fallback = fallback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        refusal = _refusal(scope)
        view = None if refusal is None else _view(scope)
        if refusal is None or view is None:
            await self._fallback(scope, receive, send)
            return
        error, request_id = refusal.error, new_request_id()
        static = _headers(view, secure=refusal.secure)  # type: ignore[arg-type]  # mypy: a class is not hashable
        headers = [*static, (b"x-request-id", request_id.encode())]
        headers = with_error_headers(headers, error, request_id=request_id)
        await delay_refusal(error)
        # The web server skips a body that was not read.
        await send_response(send, error.status, headers, error.body(request_id=request_id))
        seconds = time.perf_counter() - started
        count_request(kind="batched", method=scope["method"], status=error.status, seconds=seconds)
        if is_logged(path=scope["path"], status=error.status):
            log_request(
                method=scope["method"], path=scope["path"], status=error.status, seconds=seconds, request_id=request_id
            )


async def delay_refusal(error: ApiError) -> None:
    """For what floods consist of: requests without a valid token, or over their limit."""
    if error.status in (401, 429):
        await asyncio.sleep(REFUSAL_SECONDS)


def _refusal(scope: Scope) -> Unauthenticated | None:
    """Takes nothing from the token's limit: that is the view's task."""
    try:
        head = parse_head(scope)
    except Fallback:
        return None
    except Unauthenticated as refusal:
        return refusal
    try:
        limits.check_address(head.address, head.token.digest)
        limits.check_room(head.token.digest)
    except ApiError as error:
        return Unauthenticated(error, secure=head.secure)
    return None


def _view(scope: Scope) -> type[ApiView] | None:
    """The view, if it requires a token. An encoded path is left to Django, which knows what it stands for."""
    if b"%" in scope["raw_path"]:
        return None
    try:
        view = getattr(resolve(scope["path"]).func, "view_class", None)
    except Resolver404:
        return None
    if view is None or not issubclass(view, ApiView):
        return None
    requires_token = {TokenAuthentication, TokenFormatAuthentication} & {*view.authentication_classes}
    return view if requires_token else None
