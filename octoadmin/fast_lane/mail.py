"""What the client has sent and will send, for those who read it in turn."""

import asyncio
from typing import Any

from octoadmin.fast_lane.reading import NotPlain, Reason
from octoadmin.serving.asgi_types import Message, Receive
from octoadmin.serving.request_body import BODY_SECONDS, too_slow

# How often somebody looks whether a body is late: nearly all of them are here at once, and a timer for each would cost
# more than reading it.
LOOK_SECONDS = 1.0


class Expected:
    """The bodies that are waited for, the one that was expected first in front. On one event loop."""

    def __init__(self) -> None:
        self._since: dict[Mail, float] = {}
        self._looking: asyncio.TimerHandle | None = None

    def add(self, mail: "Mail") -> None:
        loop = asyncio.get_running_loop()
        self._since[mail] = loop.time()
        if self._looking is None:
            self._looking = loop.call_later(LOOK_SECONDS, self._look, loop)

    def remove(self, mail: "Mail") -> None:
        del self._since[mail]

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        overdue = loop.time() - BODY_SECONDS
        for mail, since in self._since.items():
            if since > overdue:
                break
            mail.give_up()
        self._looking = loop.call_later(LOOK_SECONDS, self._look, loop) if self._since else None


class Mail:
    """What `receive` has given, so that it can be given once more."""

    __slots__ = ("_expected", "_is_late", "_reader", "_receive", "_taken")

    def __init__(self, receive: Receive, expected: Expected) -> None:
        self._receive = receive
        self._expected = expected
        self._taken: list[Message] = []
        self._reader: asyncio.Task[Any] | None = None
        self._is_late = False

    async def body(self, length: int) -> bytes:
        """The body, if it comes in one piece; most do. Raises Refusal; or NotPlain, and the sync lane waits for the
        rest."""
        self._reader = asyncio.current_task()
        self._expected.add(self)
        try:
            message = await self._receive()
        except asyncio.CancelledError:
            if self._is_late and self._reader is not None and not self._reader.uncancel():
                raise too_slow() from None
            raise
        finally:
            self._expected.remove(self)
        self._taken.append(message)
        body: bytes = message.get("body", b"")
        if len(body) != length:
            raise NotPlain(Reason.BODY)
        return body

    def give_up(self) -> None:
        """The body does not come."""
        if not self._is_late and self._reader is not None:
            self._is_late = True
            self._reader.cancel()

    async def again(self) -> Message:
        """For the sync lane: what was taken, then what is to come."""
        return self._taken.pop(0) if self._taken else await self._receive()

    async def further(self) -> Message:
        """What comes after the body: that the client has hung up."""
        return await self._receive()

    async def departure(self) -> None:
        """Returns when the client has hung up."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
