"""Responses to acquires that wait: made on the event loop when the lease was handed over or the wait timed out."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import structlog

from locks.api import responses
from locks.api.errors import ApiError, Code, overloaded, unavailable
from locks.api.run_names import names_shown_to
from locks.api.usage_counters import usage_counters
from locks.async_responses import DeferredResponse, Receive, Resolve, wait_for_disconnect
from locks.engine import requests, results
from locks.engine.execution import Unavailable
from locks.engine.retry import RetriesExhausted
from locks.engine.verdicts import Verdict
from locks.queue.singletons import wait_queue
from locks.queue.wait_queue import ShuttingDown, WaitResult

# Verdicts after which a request with `wait_seconds` joins the queue.
NOT_ACQUIRED = frozenset({Verdict.HELD, Verdict.DELAYED, Verdict.WAITING})

_encode = msgspec.json.Encoder().encode
_log = structlog.stdlib.get_logger(__name__)


def wait_for_turn(request: requests.Acquire, *, wait_seconds: float, waiter_id: int | None = None) -> Resolve:
    """`waiter_id` is the place that the request has in the queue already."""
    show = names_shown_to(request.digest, (request.name,))

    async def resolve(receive: Receive) -> tuple[int, bytes]:
        waited = await _wait(
            receive,
            lambda disconnected: wait_queue.acquire(
                request, wait_seconds=wait_seconds, disconnected=disconnected, waiter_id=waiter_id
            ),
        )
        _count(waited, (waited.result,), name=request.name)
        show((waited.result,))
        message = responses.acquired(waited.result, waited_ms=waited.waited_ms, position=waited.position)
        return responses.status_of(message), _encode(message)

    return resolve


def defer_acquire(request: requests.Acquire, *, wait_seconds: float) -> DeferredResponse:
    return DeferredResponse(wait_for_turn(request, wait_seconds=wait_seconds), content_type="application/json")


def defer_acquire_all(request: requests.AcquireAll, *, wait_seconds: float) -> DeferredResponse:
    show = names_shown_to(request.digest, request.names)

    async def resolve(receive: Receive) -> tuple[int, bytes]:
        waited = await _wait(
            receive,
            lambda disconnected: wait_queue.acquire_all(request, wait_seconds=wait_seconds, disconnected=disconnected),
        )
        _count(waited, waited.result, name=None)
        show(waited.result)
        message = responses.acquired_all(waited.result, waited_ms=waited.waited_ms, position=waited.position)
        return responses.status_of(message), _encode(message)

    return DeferredResponse(resolve, content_type="application/json")


async def _wait(
    receive: Receive, wait: Callable[["asyncio.Future[None]"], Awaitable[WaitResult[Any]]]
) -> WaitResult[Any]:
    """Raises ApiError, and ClientDisconnected if the client has disconnected."""
    disconnected = asyncio.create_task(wait_for_disconnect(receive))
    try:
        return await wait(disconnected)
    except ShuttingDown:
        raise ApiError(
            503, Code.UNAVAILABLE, "The server is stopping. Try again; another one may answer.", retry_after_ms=1000
        ) from None
    except Unavailable as error:
        _log.warning("the database failed a waiting request", error=str(error))
        raise unavailable() from None
    except RetriesExhausted as error:
        _log.warning("a waiting request exhausted its retries", operation=str(error))
        raise overloaded() from None
    finally:
        disconnected.cancel()


def _count(
    waited: WaitResult[Any], rows: tuple[results.Acquired] | list[results.AcquireAllRow], *, name: str | None
) -> None:
    space_id = rows[0].space_id
    if space_id is not None:
        usage_counters.count(rows)
        usage_counters.count_wait(space_id=space_id, now=rows[0].now, milliseconds=waited.waited_ms, name=name)
