"""Rounds of contention between processes: all claim at once, one wins, and releases before the next round.

A contender is made in its own process by a function that can be imported there, so the rounds can be run through the
engine as well as over HTTP.
"""

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import Any, Protocol

MAX_WAIT = 45


@dataclass(frozen=True)
class ClaimResult:
    """The answer to a contender in a round."""

    contender: int
    status: str
    owner: str | None
    metadata: str | None
    fencing_token: int


class Contender(Protocol):
    def claim(self, *, owner: str, metadata: str) -> ClaimResult: ...
    def release(self) -> None:
        """Releases what this contender holds."""

    def close(self) -> None: ...


def race(make: Callable[..., Contender], *arguments: Any, contenders: int, rounds: int) -> list[list[ClaimResult]]:
    """The answers to all workers, round by round."""
    spawn = multiprocessing.get_context("spawn")
    start, answers = spawn.Barrier(contenders), spawn.SimpleQueue()
    processes = [
        spawn.Process(target=_contend, args=(make, arguments, number, rounds, start, answers), daemon=True)
        for number in range(contenders)
    ]
    for process in processes:
        process.start()
    results = [answers.get() for _process in processes]
    for process in processes:
        process.join(MAX_WAIT)
        assert process.exitcode == 0
    problems = [answer for answer in results if isinstance(answer, str)]
    assert not problems, problems
    return [list(together) for together in zip(*results, strict=True)]


def _contend(make: Callable[..., Contender], arguments: Any, number: int, rounds: int, start: Barrier, answers: Any):
    """Always puts one answer: a list of its results, or the error."""
    try:
        contender = make(number, *arguments)
        results = []
        for turn in range(rounds):
            start.wait(MAX_WAIT)
            results.append(contender.claim(owner=f"contender-{number}", metadata=f"round {turn}"))
            start.wait(MAX_WAIT)
            if results[-1].status == "acquired":
                contender.release()
        contender.close()
        answers.put(results)
    except BaseException as error:
        start.abort()
        answers.put(f"contender {number}: {error!r}")
