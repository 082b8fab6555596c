"""The combiner: requests that arrive while a statement is under way form the next one (group commit).

A statement has a price of its own, whatever the number of requests in it, so it pays to let them gather. Whoever was in
the last one is likely to ask again: the next begins when as many have come, or after as long a pause as a statement
takes, so that nobody who asks alone waits for others.

Every caller gets an outcome of its own. What can go wrong, and what that means for those who were in the statement:

- The statement failed and the connection is well: it was rolled back, so nothing was changed. They get Undone, and
  the sync lane asks for each alone, so that one cannot spoil the others.
- The connection was lost: whether it was committed is not known. They get Unavailable, and nobody tries again.
- The caller hung up before its turn: it is left out.
"""

import asyncio
import time
from collections import deque
from typing import Any, Protocol

import psycopg
import structlog

from locks.engine.execution import Unavailable, run_async
from locks.engine.operations import run_round
from locks.engine.requests import Caller
from locks.engine.retry import MAX_ROUNDS
from locks.engine.statements import Statement
from locks.engine.verdicts import Verdict
from octoadmin.fast_lane import metrics
from octoadmin.fast_lane.mending import MendingConnection
from octoadmin.serving.request_body import ClientGone
from octoadmin.serving.threads import Overloaded

MAX_AT_ONCE = 64
MAX_WAITING = 1000
# When somebody has waited for longer than this, a further connection is put to work.
PATIENCE_SECONDS = 0.02
# For others to come, nobody waits longer than this.
GATHER_SECONDS = 0.004
# A statement that takes longer has met a database that does not answer.
ANSWER_SECONDS = 5.0
# After a failed attempt to connect, so long everybody is told at run_round.
AWAY_SECONDS = 0.25

_log = structlog.stdlib.get_logger(__name__)


class Undone(Exception):
    """The statement failed and nothing was changed."""


class Turn(Protocol):
    """A request that waits for its outcome. Neither of its calls raises anything."""

    @property
    def asked(self) -> Caller: ...

    @property
    def disconnected(self) -> bool:
        """Nobody is there any more."""

    rounds: int
    since: float

    def settle(self, outcome: Any) -> None: ...

    def fail(self, error: Exception) -> None:
        """With ClientGone, Unavailable, Undone, or what nobody has foreseen."""


class Worker:
    """A connection, and what it is working on."""

    def __init__(self) -> None:
        self.connection = MendingConnection()
        self.batch: list[Turn] = []
        self.since = 0.0
        self.task: asyncio.Task[None] | None = None


class Combiner:
    """For one kind of statement, on one event loop."""

    def __init__(self, statement: Statement[Any], *, operation: str, connections: int) -> None:
        self._statement = statement
        self._operation = operation
        self._waiting: deque[Turn] = deque()
        self._idle = [Worker() for _ in range(connections)]
        self._busy: set[Worker] = set()
        self._away_until = 0.0
        self._looking: asyncio.TimerHandle | None = None
        self._gathering: asyncio.TimerHandle | None = None
        # How many were in the last statement, and how long it took.
        self._enough = 1
        self._pause = 0.0
        self._stopping = False
        self._sizes = metrics.batch_size.labels(operation)
        self._seconds = metrics.statement_seconds.labels(operation)
        self._length = metrics.waiting.labels(operation)

    def ask(self, turn: Turn) -> None:
        """Its turn will come, unless this raises Overloaded or Unavailable."""
        waiting = self._waiting
        if len(waiting) >= MAX_WAITING or self._stopping:
            raise Overloaded
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now < self._away_until:
            raise Unavailable("the database could not be reached a moment ago")
        turn.since = now
        waiting.append(turn)
        if not self._busy:
            self._gather(loop)
        elif len(waiting) >= MAX_AT_ONCE:
            self._start(loop)
        if self._looking is None:
            self._looking = loop.call_later(PATIENCE_SECONDS, self._look, loop)

    async def stop(self, *, seconds: float) -> None:
        """Takes no more requests, and lets those it has end."""
        self._stopping = True
        self._begin(asyncio.get_running_loop())
        tasks = [worker.task for worker in self._busy if worker.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for worker in self._idle:
            await worker.connection.close()

    def _gather(self, loop: asyncio.AbstractEventLoop) -> None:
        """While nothing is under way: begins if enough have come, or else in a moment."""
        if self._enough_have_come():
            self._begin(loop)
        elif self._gathering is None:
            self._gathering = loop.call_later(self._pause, self._begin, loop)

    def _enough_have_come(self) -> bool:
        # Who was in a statement already, and is to go again, stands in front and waits for nobody.
        waiting = self._waiting
        return len(waiting) >= self._enough or self._stopping or (bool(waiting) and waiting[0].rounds > 0)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        if self._waiting and not self._busy:
            self._start(loop)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """As a task of its own: what else has arrived by the time it begins goes along."""
        if self._idle:
            worker = self._idle.pop()
            self._busy.add(worker)
            worker.since = loop.time()
            worker.task = loop.create_task(self._work(worker, loop))

    async def _work(self, worker: Worker, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while batch := self._next_batch():
                worker.batch, worker.since = batch, loop.time()
                began = time.perf_counter()
                await self._run(worker)
                took = time.perf_counter() - began
                self._seconds.observe(took)
                self._enough, self._pause = len(batch), min(took, GATHER_SECONDS)
                if worker not in self._busy:  # given up meanwhile
                    await worker.connection.close()
                    return
                if not self._enough_have_come():
                    return
        finally:
            worker.batch = []
            if worker in self._busy:
                self._busy.remove(worker)
                self._idle.append(worker)
            if self._waiting and not self._busy:
                self._gather(loop)

    def _next_batch(self) -> list[Turn]:
        batch: list[Turn] = []
        while self._waiting and len(batch) < MAX_AT_ONCE:
            turn = self._waiting.popleft()
            if turn.disconnected:
                turn.fail(ClientGone())
            else:
                batch.append(turn)
        self._length.set(len(self._waiting))
        if batch:
            self._sizes.observe(len(batch))
        return batch

    async def _run(self, worker: Worker) -> None:
        """Who was told meanwhile that the database does not answer is told nothing else."""
        batch = worker.batch
        try:
            connection = await worker.connection.ready()
        except Unavailable as error:
            if worker in self._busy:
                self._away_until = asyncio.get_running_loop().time() + AWAY_SECONDS
                everybody = [*batch, *self._waiting]
                self._waiting.clear()
                self._fail(everybody, error)
            return
        if worker not in self._busy:
            return
        try:
            outcomes = await run_async(connection, run_round(self._statement, [turn.asked for turn in batch]))
        except Exception as error:
            if worker not in self._busy:
                return
            if _is_undone(connection, error):
                _log.warning(
                    "a statement failed; each is asked again alone", operation=self._operation, error=str(error)
                )
                self._fail(batch, Undone(str(error)))
            else:
                self._fail(batch, error)
                await worker.connection.close()
            return
        if worker not in self._busy:
            return
        settled: list[tuple[Turn, Any]] = []
        for turn, outcome in zip(reversed(batch), reversed(outcomes), strict=True):
            if outcome.verdict != Verdict.RETRY:
                settled.append((turn, outcome))
            elif turn.rounds < MAX_ROUNDS:
                turn.rounds += 1
                self._waiting.appendleft(turn)
            else:
                turn.fail(Undone("undecided"))
        # The next statement is on its way first: the database works on it while these are answered.
        asyncio.get_running_loop().call_soon(_settle, settled)

    def _fail(self, turns: list[Turn], error: Exception) -> None:
        match error:
            case Unavailable():
                _log.warning(
                    "the database failed requests", operation=self._operation, count=len(turns), error=str(error)
                )
            case Undone():
                pass
            case _:
                _log.error("unhandled exception", operation=self._operation, exc_info=error)
        for turn in turns:
            turn.fail(error)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """From time to time while somebody waits."""
        now = loop.time()
        for worker in [worker for worker in self._busy if worker.since < now - ANSWER_SECONDS]:
            self._give_up(worker, now)
        if self._waiting and self._waiting[0].since < now - PATIENCE_SECONDS:
            self._start(loop)
        self._looking = None
        if self._waiting or self._busy:
            self._looking = loop.call_later(PATIENCE_SECONDS, self._look, loop)

    def _give_up(self, worker: Worker, now: float) -> None:
        """Its connection is stuck, and to wait for it is all that it can do from now on. A new worker replaces it."""
        self._busy.remove(worker)
        self._idle.append(Worker())
        self._away_until = now + AWAY_SECONDS
        everybody = [*worker.batch, *self._waiting]
        self._waiting.clear()
        self._fail(everybody, Unavailable(f"the database did not answer within {ANSWER_SECONDS:g} s"))


def _settle(settled: list[tuple[Turn, Any]]) -> None:
    for turn, outcome in reversed(settled):
        turn.settle(outcome)


def _is_undone(connection: psycopg.AsyncConnection[Any], error: Exception) -> bool:
    """The server itself said that the statement failed, and is still there."""
    cause = error.__cause__ if isinstance(error, Unavailable) else error
    if not isinstance(cause, psycopg.Error) or cause.sqlstate is None:
        return False
    return not connection.closed and not isinstance(cause, psycopg.errors.ReadOnlySqlTransaction)
