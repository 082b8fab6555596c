"""The server's one ASGI application.

What the fast lane takes does not come here: its connection has answered it. The rest goes to the first of ROUTES that
wants it, and to Django on the sync lane otherwise.
"""

import asyncio
import gc
import os
from collections.abc import Callable
from importlib import import_module

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "octoadmin.settings")
django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402  -- Django must be set up first
from django.core.handlers.wsgi import WSGIHandler  # noqa: E402

from locks.api.usage_flusher import usage  # noqa: E402
from locks.dashboard import live  # noqa: E402
from locks.queue.singletons import wait_queue  # noqa: E402
from octoadmin.fast_lane.lane import FastLane  # noqa: E402
from octoadmin.probes.metrics import server_processes  # noqa: E402
from octoadmin.serving.asgi_types import Application, Receive, Scope, Send  # noqa: E402
from octoadmin.serving.sync_lane import STOP_SECONDS, SyncLane  # noqa: E402
from octoadmin.serving.warming import warm  # noqa: E402

# Looks at the scope and returns the application that answers it, or None to leave it to the next.
Route = Callable[[Scope], Application | None]

# Now, so that a mistake there shows at once and nobody's first request waits for the imports.
import_module(settings.ROOT_URLCONF)
warm()

sync_lane = SyncLane(WSGIHandler(), threads=settings.THREADS, trusted_proxies=settings.TRUSTED_PROXIES)
fast_lane = FastLane(sync_lane, connections=settings.LANE_CONNECTIONS)
ROUTES: tuple[Route, ...] = (live.route,)


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    match scope["type"]:
        case "http":
            for route in ROUTES:
                if (taker := route(scope)) is not None:
                    break
            else:
                taker = sync_lane
            await taker(scope, receive, send)
        case "lifespan":
            await _lifespan(scope, receive, send)
        case "websocket":
            await send({"type": "websocket.close", "code": 1000})
        case other:
            raise ValueError(f"unknown ASGI scope: {other}")


async def _lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    while True:
        match (await receive())["type"]:
            case "lifespan.startup":
                # What was imported stays: no collection needs to look at it again.
                gc.collect()
                gc.freeze()
                sync_lane.start()
                usage.start()
                server_processes.set(1)
                # For the server and its connections.
                scope["state"]["farewell"] = wait_queue.close
                if settings.FAST_LANE:
                    scope["state"]["lane"] = fast_lane
                await send({"type": "lifespan.startup.complete"})
            case "lifespan.shutdown":
                await _stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


async def _stop() -> None:
    """All at once, and none of them waits longer than that for a database which does not answer."""
    stopping = (
        wait_queue.close(),
        fast_lane.stop(seconds=STOP_SECONDS),
        # Not here on the loop, which has yet to send what the threads are working on.
        asyncio.to_thread(sync_lane.stop),
    )
    done, _ = await asyncio.wait({asyncio.ensure_future(each) for each in stopping}, timeout=STOP_SECONDS)
    for each in done:
        each.result()
