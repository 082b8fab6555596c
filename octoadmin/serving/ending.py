"""How a server process learns that it is about to be stopped: before the web server stops taking part in anything."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

# One that does nothing to a process which does not know it yet, and that nobody else sends.
END_IS_NEAR = signal.SIGURG


def when_the_end_is_near(farewell: Callable[[], Awaitable[None]]) -> None:
    """On the loop."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Future[None]] = set()

    def say() -> None:
        task = asyncio.ensure_future(farewell())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(END_IS_NEAR, say)
