"""Streams events to one watcher until it disconnects or is closed."""

from locks.async_responses import Receive, Send
from locks.events.stream import sse
from locks.events.stream.authorization import Authorization
from locks.events.stream.event_tail import event_tail
from locks.events.stream.poller import poller
from locks.events.stream.renewals import Renewals
from locks.events.stream.sse import EventStream
from locks.events.stream.watchers import Watcher

# Without an event for so long, a comment is sent with the watcher's current cursor as its id.
KEEPALIVE_SECONDS = 15.0

poller.register(event_tail, Renewals(event_tail), Authorization(event_tail))


async def stream(watcher: Watcher, receive: Receive, send: Send) -> None:
    """The body of a response that has been started. The watcher's snapshot is sent before any event."""
    event_tail.add(watcher)
    poller.ensure_running()
    try:
        async with EventStream(receive, send, watcher.account) as client:
            while watcher.snapshot and client.is_connected:
                await _send(watcher, client, watcher.snapshot.popleft())
            await _send_events(watcher, client)
    finally:
        event_tail.remove(watcher)
        watcher.account.close()


async def _send(watcher: Watcher, client: EventStream, chunk: bytes) -> None:
    await client.send(chunk)
    watcher.account.give_back(len(chunk))


async def _send_events(watcher: Watcher, client: EventStream) -> None:
    while client.is_connected:
        if pending := watcher.take_pending():
            await _send(watcher, client, pending)
        elif watcher.close_reason is not None:
            await client.send(sse.comment(watcher.close_reason.value))
            await client.finish()
            return
        elif not await client.wait(watcher.ready, seconds=KEEPALIVE_SECONDS):
            await client.send(watcher.keepalive(event_tail.cursor_of(watcher)))
