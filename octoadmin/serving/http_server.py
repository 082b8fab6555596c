"""uvicorn as it is needed here: it looks after its connections, and says goodbye to those who wait."""

import asyncio
import os
import signal
import socket
from types import FrameType

import uvicorn

from octoadmin.serving.asgi_types import Application
from octoadmin.serving.connection import KEEP_ALIVE_SECONDS, Connection

BACKLOG = 1024
# A live stream has no end of its own; after this many seconds a stop cuts it off, and browsers come back.
STOP_SECONDS = 1.0
# For what was cut off to notice.
FAREWELL_SECONDS = 0.5
_TICKS_PER_SECOND = 10


class HttpServer(uvicorn.Server):
    """One process' part of the server. Ends with its parent, if that was to start and stop it."""

    def __init__(self, application: Application | str, *, parent: int | None = None) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                loop="uvloop",
                http=Connection,
                ws="none",
                lifespan="on",
                access_log=False,
                server_header=False,
                log_config=None,
                log_level="error",
                backlog=BACKLOG,
                timeout_keep_alive=int(KEEP_ALIVE_SECONDS),
                # Whom to believe about addresses and schemes is the application's to know.
                proxy_headers=False,
            )
        )
        self._parent = parent

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """An orderly stop is no failure: unlike uvicorn's, it does not end by the signal that asked for it."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_PER_SECOND == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                connection.look(now)  # type: ignore[union-attr]
        if self._parent is not None and os.getppid() != self._parent:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """No new ones; those who wait in line are told, the others may end in a while, and the rest is cut off."""
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        if (farewell := self.lifespan.state.get("farewell")) is not None:
            # They are told at once. What else it does waits for a database, which may not answer.
            await asyncio.wait({asyncio.create_task(farewell())}, timeout=STOP_SECONDS)
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await self._until_all_have_left(STOP_SECONDS)
        for connection in list(self.server_state.connections):
            connection.transport.close()
        await self._until_all_have_left(FAREWELL_SECONDS)
        await self.lifespan.shutdown()

    async def _until_all_have_left(self, seconds: float) -> None:
        state = self.server_state
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (state.connections or state.tasks) and not self.force_exit and loop.time() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
