"""Renews what a client holds, on its event loop, and goes on whatever an attempt raises."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from octo import errors
from octo.lease import Renewable
from octo.protocol import Request, Response
from octo.renewal import Attempt, RenewalSet

log = logging.getLogger("octo")
# After a failure that should not happen.
RESTART_SECONDS = 0.5


class Renewer:
    """One task decides what is due; each attempt is a task of its own, so that none delays another or a deadline."""

    def __init__(self, send: Callable[[Request], Awaitable[Response]]) -> None:
        self._send = send
        self._set = RenewalSet()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._attempts: set[asyncio.Task[None]] = set()

    def add(self, item: Renewable) -> None:
        self._set.add(item)
        if self._task is None or self._task.done():
            self._start()
        self._changed.set()

    def discard(self, item: Renewable) -> None:
        self._set.discard(item)
        self._changed.set()

    async def close(self) -> None:
        """What is still held is not renewed any more, and expires."""
        tasks = [task for task in (self._task, *self._attempts) if task is not None]
        self._task = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="octo-renewer")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A lease that nothing renews would look held until it is looked at, so this is never silent."""
        if task is not self._task or not len(self._set):
            return
        log.critical("renewing was stopped: what is held becomes uncertain at its deadline, unless renewing restarts")
        if not task.cancelled():
            self._start()
            return
        loop = asyncio.get_running_loop()
        for item in self._set:
            loop.call_later(item.remaining + 0.01, item.check_expired)

    async def _run(self) -> None:
        while len(self._set):
            try:
                attempts, pause = self._set.poll()
                for attempt in attempts:
                    self._begin(attempt)
            except Exception:
                log.exception("renewing failed, and is tried again")
                pause = RESTART_SECONDS
            self._changed.clear()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), pause)

    def _begin(self, attempt: Attempt) -> None:
        for item in attempt.items:
            item.in_flight = True
        task = asyncio.get_running_loop().create_task(self._execute(attempt))
        self._attempts.add(task)
        task.add_done_callback(self._attempts.discard)

    async def _execute(self, attempt: Attempt) -> None:
        try:
            attempt.finish(await self._send(attempt.request))
        except errors.TransportError as problem:
            attempt.fail(str(problem))
        except Exception as problem:
            log.exception("a renewal failed unexpectedly")
            attempt.fail(repr(problem))
        finally:
            for item in attempt.items:
                item.in_flight = False
            self._changed.set()
