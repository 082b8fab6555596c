"""When leases and sessions are renewed: at half of what is left, many in one request (`RenewalSet`, without I/O); and
the task that sends it and goes on whatever an attempt raises (`Renewer`)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from octo import clock, errors
from octo.lease import Renewable
from octo.models import expect, invalid
from octo.protocol import ANSWER_SECONDS, Request, Response, check_response

log = logging.getLogger("octo")
# A sleeping machine may stop the clock that timers run on: nothing is noticed later than this after it wakes.
MAX_SLEEP = 1.0
MAX_BATCH_SIZE = 1000
# What is due this soon is renewed along with what is due now.
BATCH_WINDOW = 0.25
MIN_TIMEOUT = 0.5
# How long a server that does not know renew-all is not asked again for it.
BATCH_PAUSE = 60.0
# After a failure that should not happen.
RESTART_SECONDS = 0.5
LOST_CODES = (errors.LeaseNotCurrent, errors.SessionExpired, errors.NotFound)


class Attempt:
    """One request that renews one or more; it ends with exactly one of `finish` and `fail`."""

    def __init__(self, items: Sequence[Renewable], *, owner: RenewalSet) -> None:
        self.items = items
        self._owner = owner
        remaining = min(item.deadline for item in items) - clock.now()
        # Short enough that a request without an answer leaves time for others.
        timeout = min(ANSWER_SECONDS, max(MIN_TIMEOUT, remaining / 3))
        if len(items) == 1:
            self.request = items[0].renewal(timeout=timeout)
        else:
            body = {"leases": [item.batch_entry for item in items]}
            self.request = Request("POST", "/locks/renew-all", body, timeout=timeout)

    def finish(self, response: Response) -> None:
        try:
            if len(self.items) > 1 and response.status in (404, 405):
                self._owner.batch_after = clock.now() + BATCH_PAUSE
            refusal = check_response(response)
            if refusal is not None:
                # One refusal of a whole batch says nothing about its leases.
                if len(self.items) == 1 and isinstance(refusal, LOST_CODES):
                    self.items[0].on_rejected(refusal.details)
                else:
                    self.fail(refusal.details)
                return
            body = response.json()
            results = [body] if len(self.items) == 1 else _in_order(self.items, body)
        except errors.TransportError as problem:
            self.fail(str(problem))
            return
        for item, result in zip(self.items, results, strict=True):
            apply_renewal(item, result, sent_at=response.sent_at)

    def fail(self, reason: str) -> None:
        for item in self.items:
            item.on_renew_failed(reason)


def _in_order(items: Sequence[Renewable], body: Any) -> list[Any]:
    results = expect(body, results=list)["results"]
    by_id = {expect(result, lease_id=str, ok=bool)["lease_id"]: result for result in results}
    return [by_id.get((item.batch_entry or {})["lease_id"]) for item in items]


def apply_renewal(item: Renewable, result: Any, *, sent_at: float) -> None:
    """`ok` is of the results of renew-all; the answer to a single renewal has none, and is one."""
    try:
        if result is None:
            raise invalid("a result for each lease")
        if expect(result).get("ok", True):
            item.renewed(result, sent_at=sent_at)
        elif result.get("code") == errors.Code.LEASE_NOT_CURRENT.value:
            item.on_rejected(str(result.get("details") or ""))
        else:
            item.on_renew_failed(str(result.get("details") or result.get("code")))
    except errors.TransportError as problem:
        item.on_renew_failed(str(problem))


class RenewalSet:
    """What a client keeps alive. Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._items: list[Renewable] = []
        self.batch_after = 0.0

    def add(self, item: Renewable) -> None:
        with self._guard:
            if item not in self._items:
                self._items.append(item)

    def discard(self, item: Renewable) -> None:
        with self._guard:
            if item in self._items:
                self._items.remove(item)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Renewable]:
        return iter(tuple(self._items))

    def poll(self) -> tuple[list[Attempt], float]:
        """What to send now, and after how many seconds to poll again. Ends what has passed its deadline."""
        for item in self:
            if item.check_expired():
                self.discard(item)
        now = clock.now()
        waiting = [item for item in self._items if not item.in_flight]
        due = [item for item in waiting if item.renew_at <= now + BATCH_WINDOW]
        if not any(item.renew_at <= now for item in due):
            due = []
        attempts = [Attempt(group, owner=self) for group in self._groups(due, now)]
        wakes = [item.deadline for item in self._items] + [item.renew_at for item in waiting if item not in due]
        return attempts, max(0.0, min([MAX_SLEEP, *(at - now for at in wakes)]))

    def _groups(self, due: Sequence[Renewable], now: float) -> list[Sequence[Renewable]]:
        batch = [item for item in due if item.batch_entry is not None] if now >= self.batch_after else []
        alone: list[Sequence[Renewable]] = [[item] for item in due if item not in batch]
        return alone + [batch[first : first + MAX_BATCH_SIZE] for first in range(0, len(batch), MAX_BATCH_SIZE)]


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
