"""Sends a watcher what it is to hear, for as long as it stays. Holds no thread and no database connection."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from locks.events.stream.live_poller import event_tail, poller
from locks.events.stream.sse import comment, id_line
from locks.events.stream.watchers import Watcher

# No line for so long, and a comment says that all is well; it carries how far the watcher is.
QUIET_SECONDS = 15.0
# A reader that takes nothing for so long is given up.
STALL_SECONDS = 30.0

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


async def stream(watcher: Watcher, first: list[bytes], receive: Receive, send: Send) -> None:
    """The answer has begun. `first` is sent before anything else."""
    departure = asyncio.create_task(_departure(receive))
    event_tail.add(watcher)
    poller.attend()
    try:
        for part in first:
            await _pass_on(send, part)
        await _tell(watcher, send, departure)
    except TimeoutError:
        # Left unfinished, the server breaks it off.
        pass
    finally:
        event_tail.remove(watcher)
        departure.cancel()


async def _tell(watcher: Watcher, send: Send, departure: "asyncio.Task[None]") -> None:
    while not departure.done():
        if waiting := watcher.take():
            await _pass_on(send, waiting)
        elif watcher.ending is not None:
            await _pass_on(send, comment(watcher.ending.value))
            await send({"type": "http.response.body", "body": b""})
            return
        elif not await _hears(watcher, departure):
            await _pass_on(send, id_line(event_tail.bookmark_of(watcher)) + comment("nothing new"))


async def _hears(watcher: Watcher, departure: "asyncio.Task[None]") -> bool:
    """Waits for news or the end; False if nothing happened for long."""
    news = asyncio.create_task(watcher.news.wait())
    try:
        done, _ = await asyncio.wait({news, departure}, timeout=QUIET_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        news.cancel()


async def _departure(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _pass_on(send: Send, body: bytes) -> None:
    async with asyncio.timeout(STALL_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": True})
