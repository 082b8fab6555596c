"""The live stream of a space: it says that something changed, and the page fetches what it shows.

An ASGI application of its own. Who asks is checked once on a thread; after that a stream holds no thread and no
database connection, only a place among the viewers for whom the process' one poller looks.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.db import Error, connections
from django.http import Http404, HttpRequest

from locks.browser_sessions import SessionStore, digest
from locks.dashboard.access import get_space_context
from locks.dashboard.live_viewers import Viewer, ViewerAuthorization, Viewers
from locks.events.stream.poller import poller
from locks.models import User
from octoadmin.probes.metrics import live_streams

# A line is sent at least this often, so that a page knows that no news is good news.
BEAT_SECONDS = 5.0
MAX_VIEWERS = 5_000
RETRY_MS = 2_000

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_PATH = re.compile(rb"/ui/([-\w]+)/([-\w]+)/live")
_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    # Proxies that collect answers before they pass them on would hold the news back.
    (b"x-accel-buffering", b"no"),
]

viewers = Viewers()
poller.register(viewers, ViewerAuthorization(viewers))


def route(scope: dict[str, Any]) -> Callable[[dict[str, Any], Receive, Send], Awaitable[None]] | None:
    return stream if scope["method"] == "GET" and _PATH.fullmatch(scope["raw_path"]) else None


async def stream(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    if viewers.number >= MAX_VIEWERS:
        await _refuse(send, 503)
        return
    try:
        viewer = await asyncio.to_thread(_admit, scope)
    except Error:
        await _refuse(send, 503)
        return
    if viewer is None:
        await _refuse(send, 404)
        return
    departure = asyncio.create_task(_departure(receive))
    viewers.add(viewer)
    live_streams.inc()
    poller.ensure_running()
    try:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await _send_line(send, f"retry: {RETRY_MS}\nevent: beat\ndata:\n\n")
        await _tell(viewer, send, departure)
    finally:
        viewers.remove(viewer)
        live_streams.dec()
        departure.cancel()


async def _tell(viewer: Viewer, send: Send, departure: "asyncio.Task[None]") -> None:
    loop = asyncio.get_running_loop()
    told = loop.time()
    while True:
        look = asyncio.create_task(viewer.looked.wait())
        await asyncio.wait({look, departure}, return_when=asyncio.FIRST_COMPLETED)
        look.cancel()
        if departure.done():
            return
        viewer.looked.clear()
        if viewer.is_gone:
            await _send_line(send, "event: gone\ndata:\n\n")
            await send({"type": "http.response.body", "body": b""})
            return
        if viewer.changes:
            changes, viewer.changes = viewer.changes, 0
            await _send_line(send, f"event: changed\ndata: {changes}\n\n")
            told = loop.time()
        elif loop.time() - told >= BEAT_SECONDS:
            await _send_line(send, "event: beat\ndata:\n\n")
            told = loop.time()


async def _departure(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_line(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _refuse(send: Send, status: int) -> None:
    headers = [(b"content-type", b"text/plain"), (b"cache-control", b"no-store"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _admit(scope: dict[str, Any]) -> Viewer | None:
    """On a thread. None for whoever is not signed in or may not see the space."""
    path = _PATH.fullmatch(scope["raw_path"])
    assert path is not None
    request = HttpRequest()
    key = _session_key(scope)
    request.session = SessionStore(key)
    try:
        user = get_user(request)
        if key is None or not isinstance(user, User):
            return None
        place = get_space_context(user, team=path[1].decode(), space=path[2].decode())
        return Viewer(
            session_key=digest(key),
            user_id=user.pk,
            password_digest=hashlib.sha256(user.password.encode()).hexdigest(),
            space_id=place.space.pk,
        )
    except Http404:
        return None
    finally:
        connections.close_all()


def _session_key(scope: dict[str, Any]) -> str | None:
    cookies = SimpleCookie()
    for name, value in scope["headers"]:
        if name == b"cookie":
            try:
                cookies.load(value.decode("latin-1"))
            except CookieError:
                return None
    found = cookies.get(settings.SESSION_COOKIE_NAME)
    return found.value if found else None
