"""The answer to a request that waits: made on the event loop when its turn has come, or its time is up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import structlog

from locks.api import answers
from locks.api.errors import Code, Refusal, overloaded, unavailable
from locks.api.tallies import tallies
from locks.engine import outcomes, requests
from locks.engine.execution import Unavailable
from locks.engine.rounds import Undecided
from locks.engine.verdicts import Verdict
from locks.hand_over import Later, Parked, Receive
from locks.waiting.line import Closed, Turn
from locks.waiting.process import line

# What somebody who is willing to wait does not take for an answer.
IN_VAIN = frozenset({Verdict.HELD, Verdict.DELAYED})

_encode = msgspec.json.Encoder().encode
_log = structlog.stdlib.get_logger(__name__)


def turn_of(asked: requests.Acquire, *, wait_seconds: float) -> Later:
    async def later(receive: Receive) -> tuple[int, bytes]:
        turn = await _turn(receive, lambda gone: line.turn(asked, wait_seconds=wait_seconds, gone=gone))
        _count(turn, (turn.outcome,), name=asked.name)
        message = answers.acquired(turn.outcome, waited_ms=turn.waited_ms, position=turn.position)
        return answers.status_of(message), _encode(message)

    return later


def park(asked: requests.Acquire, *, wait_seconds: float) -> Parked:
    return Parked(turn_of(asked, wait_seconds=wait_seconds), content_type="application/json")


def park_for_all(asked: requests.AcquireAll, *, wait_seconds: float) -> Parked:
    async def later(receive: Receive) -> tuple[int, bytes]:
        turn = await _turn(receive, lambda gone: line.turn_for_all(asked, wait_seconds=wait_seconds, gone=gone))
        _count(turn, turn.outcome, name=None)
        message = answers.acquired_together(turn.outcome, waited_ms=turn.waited_ms, position=turn.position)
        return 200, _encode(message)

    return Parked(later, content_type="application/json")


async def _turn(receive: Receive, wait: Callable[["asyncio.Future[None]"], Awaitable[Turn[Any]]]) -> Turn[Any]:
    """Raises Refusal, and Gone if nobody is left to be answered."""
    gone = asyncio.create_task(_departure(receive))
    try:
        return await wait(gone)
    except Closed:
        raise Refusal(
            503, Code.UNAVAILABLE, "The server stops. Ask again; another one may be there.", retry_after_ms=1000
        ) from None
    except Unavailable as error:
        _log.warning("the database failed a waiting request", error=str(error))
        raise unavailable() from None
    except Undecided as error:
        _log.warning("a waiting request remained undecided", operation=str(error))
        raise overloaded() from None
    finally:
        gone.cancel()


async def _departure(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _count(
    turn: Turn[Any], found: tuple[outcomes.Acquired] | list[outcomes.AcquiredTogether], *, name: str | None
) -> None:
    space_id = found[0].space_id
    if space_id is not None:
        tallies.count(found)
        tallies.count_wait(space_id=space_id, now=found[0].now, milliseconds=turn.waited_ms, name=name)
