"""The answer to a request that waits: made on the event loop when its turn has come, or its time is up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import structlog

from locks.api import responses
from locks.api.errors import ApiError, Code, overloaded, unavailable
from locks.api.usage_counters import tallies
from locks.async_responses import DeferredResponse, Later, Receive
from locks.engine import requests, results
from locks.engine.execution import Unavailable
from locks.engine.retry import RetriesExhausted
from locks.engine.verdicts import Verdict
from locks.queue.singletons import wait_queue
from locks.queue.wait_queue import ShuttingDown, WaitResult

# What somebody who is willing to wait does not take for an answer.
NOT_ACQUIRED = frozenset({Verdict.HELD, Verdict.DELAYED})

_encode = msgspec.json.Encoder().encode
_log = structlog.stdlib.get_logger(__name__)


def wait_for_turn(asked: requests.Acquire, *, wait_seconds: float) -> Later:
    async def later(receive: Receive) -> tuple[int, bytes]:
        turn = await _turn(
            receive, lambda gone: wait_queue.acquire(asked, wait_seconds=wait_seconds, disconnected=gone)
        )
        _count(turn, (turn.result,), name=asked.name)
        message = responses.acquired(turn.result, waited_ms=turn.waited_ms, position=turn.position)
        return responses.status_of(message), _encode(message)

    return later


def park(asked: requests.Acquire, *, wait_seconds: float) -> DeferredResponse:
    return DeferredResponse(wait_for_turn(asked, wait_seconds=wait_seconds), content_type="application/json")


def park_for_all(asked: requests.AcquireAll, *, wait_seconds: float) -> DeferredResponse:
    async def later(receive: Receive) -> tuple[int, bytes]:
        turn = await _turn(
            receive, lambda gone: wait_queue.acquire_all(asked, wait_seconds=wait_seconds, disconnected=gone)
        )
        _count(turn, turn.result, name=None)
        message = responses.acquired_together(turn.result, waited_ms=turn.waited_ms, position=turn.position)
        return 200, _encode(message)

    return DeferredResponse(later, content_type="application/json")


async def _turn(
    receive: Receive, wait: Callable[["asyncio.Future[None]"], Awaitable[WaitResult[Any]]]
) -> WaitResult[Any]:
    """Raises ApiError, and Gone if nobody is left to be answered."""
    gone = asyncio.create_task(_departure(receive))
    try:
        return await wait(gone)
    except ShuttingDown:
        raise ApiError(
            503, Code.UNAVAILABLE, "The server stops. Ask again; another one may be there.", retry_after_ms=1000
        ) from None
    except Unavailable as error:
        _log.warning("the database failed a waiting request", error=str(error))
        raise unavailable() from None
    except RetriesExhausted as error:
        _log.warning("a waiting request remained undecided", operation=str(error))
        raise overloaded() from None
    finally:
        gone.cancel()


async def _departure(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _count(
    turn: WaitResult[Any], found: tuple[results.Acquired] | list[results.AcquireAllRow], *, name: str | None
) -> None:
    space_id = found[0].space_id
    if space_id is not None:
        tallies.count(found)
        tallies.count_wait(space_id=space_id, now=found[0].now, milliseconds=turn.waited_ms, name=name)
