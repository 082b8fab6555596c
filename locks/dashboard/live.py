"""The live stream of a space: it says that something changed, and the page fetches what it shows.

The view authorizes the request on its thread. After that a stream holds no thread and no database connection, only an
entry among the viewers that the one poller of this process serves.
"""

import asyncio
import hashlib
from functools import partial

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.async_responses import LoopStreamingResponse, Receive, Send, wait_for_disconnect
from locks.browser_sessions import digest
from locks.dashboard.access import get_space_context
from locks.dashboard.live_viewers import Viewer, ViewerAuthorization, Viewers
from locks.events.stream.poller import poller
from locks.metrics import live_streams
from locks.models import User

# A line is sent at least this often, so that a page can tell a quiet stream from a broken one.
BEAT_SECONDS = 5.0
MAX_VIEWERS = 5_000
RETRY_MS = 2_000
# A client that reads nothing for so long is disconnected.
STALL_SECONDS = 30.0

_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    # Proxies that buffer responses would hold events back.
    "X-Accel-Buffering": "no",
}

viewers = Viewers()
poller.register(viewers, ViewerAuthorization(viewers))


@require_safe
def live(request: HttpRequest, *, team: str, space: str) -> HttpResponse:
    """404 without a session: an EventSource cannot follow a redirect to the sign-in page."""
    if viewers.number >= MAX_VIEWERS:
        return HttpResponse(status=503, headers={"Retry-After": "1"})
    viewer = admit(request, team=team, space=space)
    return LoopStreamingResponse(partial(_stream, viewer), headers=_HEADERS)


def admit(request: HttpRequest, *, team: str, space: str) -> Viewer:
    """Raises Http404 unless the user is signed in and may see the space."""
    user = request.user
    if not isinstance(user, User) or request.session.session_key is None:
        raise Http404
    space_context = get_space_context(user, team=team, space=space)
    return Viewer(
        session_key=digest(request.session.session_key),
        user_id=user.pk,
        password_digest=hashlib.sha256(user.password.encode()).hexdigest(),
        space_id=space_context.space.pk,
    )


async def _stream(viewer: Viewer, receive: Receive, send: Send) -> None:
    disconnect = asyncio.create_task(wait_for_disconnect(receive))
    viewers.add(viewer)
    live_streams.inc()
    poller.ensure_running()
    try:
        await _send(send, f"retry: {RETRY_MS}\nevent: beat\ndata:\n\n")
        await _send_events(viewer, send, disconnect)
    except TimeoutError:
        # The response stays unfinished, so the server closes the connection.
        pass
    finally:
        viewers.remove(viewer)
        live_streams.dec()
        disconnect.cancel()


async def _send_events(viewer: Viewer, send: Send, disconnect: "asyncio.Task[None]") -> None:
    loop = asyncio.get_running_loop()
    sent_at = loop.time()
    while True:
        polled = asyncio.create_task(viewer.polled.wait())
        await asyncio.wait({polled, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        polled.cancel()
        if disconnect.done():
            return
        viewer.polled.clear()
        if viewer.is_gone:
            await _send(send, "event: gone\ndata:\n\n")
            await send({"type": "http.response.body", "body": b""})
            return
        if viewer.changes:
            changes, viewer.changes = viewer.changes, 0
            await _send(send, f"event: changed\ndata: {changes}\n\n")
            sent_at = loop.time()
        elif loop.time() - sent_at >= BEAT_SECONDS:
            await _send(send, "event: beat\ndata:\n\n")
            sent_at = loop.time()


async def _send(send: Send, text: str) -> None:
    async with asyncio.timeout(STALL_SECONDS):
        await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
