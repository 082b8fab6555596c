"""The live stream of a space, or of the overview: it says that something changed, and the page fetches what it shows.

The view authorizes the request on its thread. After that a stream holds no thread and no database connection, only an
entry among the viewers that the one poller of this process serves.
"""

import asyncio
import hashlib
from functools import partial

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.async_responses import LoopStreamingResponse, Receive, Send
from locks.browser_sessions import digest
from locks.dashboard.access import get_space_context
from locks.dashboard.live_viewers import Viewer, ViewerAuthorization, Viewers
from locks.events.stream import sse
from locks.events.stream.poller import poller
from locks.events.stream.sse import EventStream
from locks.metrics import live_streams
from locks.models import Space, User

# A line is sent at least this often, so that a page can tell a quiet stream from a broken one.
HEARTBEAT_SECONDS = 5.0
RETRY_MS = 2_000

viewers = Viewers()
poller.register(viewers, ViewerAuthorization(viewers))


@require_safe
def live(request: HttpRequest, *, team: str, space: str) -> HttpResponse:
    """404 without a session: an EventSource cannot follow a redirect to the sign-in page."""
    return _respond(admit(request, team=team, space=space))


@require_safe
def overview_live(request: HttpRequest) -> HttpResponse:
    """Says only that the server is there and the user signed in: the overview refreshes by itself every few seconds,
    because to watch all spaces for changes costs more than to count their locks."""
    return _respond(_viewer(_signed_in_user(request), request, space=None))


def admit(request: HttpRequest, *, team: str, space: str) -> Viewer:
    """Raises Http404 unless the user is signed in and may see the space."""
    user = _signed_in_user(request)
    return _viewer(user, request, space=get_space_context(user, team=team, space=space).space)


def _signed_in_user(request: HttpRequest) -> User:
    if not isinstance(request.user, User) or request.session.session_key is None:
        raise Http404
    return request.user


def _viewer(user: User, request: HttpRequest, *, space: Space | None) -> Viewer:
    assert request.session.session_key is not None
    return Viewer(
        session_key=digest(request.session.session_key),
        user_id=user.pk,
        password_digest=hashlib.sha256(user.password.encode()).hexdigest(),
        space_id=space.pk if space else None,
        team_id=space.team_id if space else None,
    )


def _respond(viewer: Viewer) -> HttpResponse:
    if not viewers.has_room_for(viewer):
        # The page then polls.
        return HttpResponse(status=503, headers={"Retry-After": "1"})
    return LoopStreamingResponse(partial(_stream, viewer), headers=sse.HEADERS)


async def _stream(viewer: Viewer, receive: Receive, send: Send) -> None:
    viewers.add(viewer)
    live_streams.inc()
    poller.ensure_running()
    try:
        async with EventStream(receive, send) as client:
            await client.send(sse.retry_line(RETRY_MS) + sse.event("beat"))
            await _send_events(viewer, client)
    finally:
        viewers.remove(viewer)
        live_streams.dec()


async def _send_events(viewer: Viewer, client: EventStream) -> None:
    loop = asyncio.get_running_loop()
    sent_at = loop.time()
    while True:
        await client.wait(viewer.polled)
        if not client.is_connected:
            return
        viewer.polled.clear()
        if viewer.is_gone:
            await client.send(sse.event("gone"))
            await client.finish()
            return
        if viewer.changes:
            changes, viewer.changes = viewer.changes, 0
            await client.send(sse.event("changed", b"%d" % changes))
        elif loop.time() - sent_at >= HEARTBEAT_SECONDS:
            await client.send(sse.event("beat"))
        else:
            continue
        sent_at = loop.time()
