"""The server's ASGI application: the fast path in front, Django behind it."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "octoadmin.settings")
django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402  -- Django must be set up first
from django.core.handlers.wsgi import WSGIHandler  # noqa: E402

from locks.api.usage_flusher import usage_flusher  # noqa: E402
from locks.metrics import server_processes  # noqa: E402
from locks.postgresql.connections import limit_calls  # noqa: E402
from locks.queue.singletons import wait_queue  # noqa: E402
from locks.runs.kv_waiting import kv_waiters  # noqa: E402
from octoadmin.batching.application import BatchingApplication  # noqa: E402
from octoadmin.http.asgi_types import Receive, Scope, Send  # noqa: E402
from octoadmin.mcp import create_mcp_endpoint  # noqa: E402
from octoadmin.monitoring import worker_watch  # noqa: E402
from octoadmin.run.preload import preload  # noqa: E402
from octoadmin.wsgi_bridge.bridge import STOP_SECONDS, WSGIBridge  # noqa: E402

if TYPE_CHECKING:
    from octoadmin.http.tracing import TracedApplication

# How long a thread that computes can keep the event loop waiting, each time the loop has something to do. Python's
# default of 5 ms would add up to much of the time of a renewal while others make pages.
SWITCH_SECONDS = 0.0005

# Imported now, so that an error shows at start and the first request does not wait for the import.
import_module(settings.ROOT_URLCONF)
preload()

bridge = WSGIBridge(WSGIHandler(), threads=settings.THREADS, trusted_proxies=settings.TRUSTED_PROXIES)
batching = BatchingApplication(bridge, connections=settings.BATCH_CONNECTIONS)
api = batching if settings.BATCHING else bridge
mcp = create_mcp_endpoint(api)


async def _serve(scope: Scope, receive: Receive, send: Send) -> None:
    await (mcp if mcp and scope["path"] == "/mcp" else api)(scope, receive, send)


def _create_traced_application() -> "TracedApplication | None":
    """None, and nothing of OpenTelemetry is imported, unless an endpoint is set."""
    if not settings.TRACING:
        return None
    from octoadmin.http.tracing import TracedApplication

    return TracedApplication(_serve)


traced = _create_traced_application()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    match scope["type"]:
        case "http":
            await (traced or _serve)(scope, receive, send)
        case "lifespan":
            await _lifespan(receive, send)
        case "websocket":
            await send({"type": "websocket.close", "code": 1000})
        case other:
            raise ValueError(f"unknown ASGI scope: {other}")


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        match (await receive())["type"]:
            case "lifespan.startup":
                # Imported modules stay: the garbage collector need not examine them again.
                gc.collect()
                gc.freeze()
                # A batch of requests allocates thousands of objects that are all freed soon: collect less often than by
                # default. Not too seldom: nothing else runs meanwhile, and with 20,000 a collection took 10 to 35 ms
                # beside a flood.
                gc.set_threshold(4_000, 20, 20)
                sys.setswitchinterval(SWITCH_SECONDS)
                limit_calls(settings.DATABASE_SECONDS)
                bridge.start()
                usage_flusher.start()
                worker_watch.start()
                if traced:
                    traced.start()
                server_processes.set(1)
                _on_stop_signal(_end_long_requests)
                await send({"type": "lifespan.startup.complete"})
            case "lifespan.shutdown":
                await _stop()
                if traced:
                    traced.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


_closing: set[asyncio.Task[None]] = set()


def _end_long_requests() -> None:
    """Waiting requests get a 503 and streams end. The server waits for all requests in progress before it shuts the
    application down, and these would take too long."""
    bridge.end_streams()
    _closing.add(asyncio.ensure_future(wait_queue.close()))
    _closing.add(asyncio.ensure_future(kv_waiters.close()))


def _on_stop_signal(callback: Callable[[], None]) -> None:
    """Calls it on the event loop; the handler that the server has installed is called as well."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        server_handler = signal.getsignal(number)

        def handle(signal_number: int, frame: FrameType | None, server_handler: object = server_handler) -> None:
            loop.call_soon_threadsafe(callback)
            if callable(server_handler):
                server_handler(signal_number, frame)

        signal.signal(number, handle)


async def _stop() -> None:
    """All at once, and for no longer than STOP_SECONDS: the database may not answer."""
    stopping: list[Coroutine[Any, Any, None]] = [
        wait_queue.close(),
        kv_waiters.close(),
        batching.stop(seconds=STOP_SECONDS),
        # Not on the loop, which has to send what the threads are working on.
        asyncio.to_thread(bridge.stop),
        *([mcp.stop()] if mcp else []),
    ]
    done, _ = await asyncio.wait({asyncio.ensure_future(each) for each in stopping}, timeout=STOP_SECONDS)
    for each in done:
        each.result()
