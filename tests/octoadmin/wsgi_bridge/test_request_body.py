"""Bodies are bounded in size, in time and in their total memory."""

import asyncio
from typing import Any

import pytest

from locks.api.errors import ApiError
from octoadmin.http.asgi_types import ClientGone
from octoadmin.wsgi_bridge.request_body import BodyBudget, read_body

CHUNK = b"x" * 1000


def read(messages: list[dict[str, Any]], budget: BodyBudget, *, length: int) -> bytes:
    arriving = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(arriving)

    scope = {"type": "http", "http_version": "1.1"}
    return asyncio.run(read_body(scope, {"CONTENT_LENGTH": str(length)}, receive, budget))


def chunk(more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": CHUNK, "more_body": more}


def test_a_body_counts_against_the_budget_until_it_is_given_back():
    budget = BodyBudget(2500)
    body = read([chunk(), chunk(more=False)], budget, length=2000)
    with pytest.raises(ApiError) as refused:
        read([chunk(more=False)], budget, length=1000)
    assert refused.value.status == 503
    budget.give_back(len(body))
    assert read([chunk(more=False)], budget, length=1000) == CHUNK


def test_an_incomplete_body_is_a_bad_request_and_frees_its_budget():
    budget = BodyBudget(2000)
    for _ in range(5):
        with pytest.raises(ApiError) as refused:
            read([chunk(), {"type": "http.disconnect"}], budget, length=2000)
        assert refused.value.status == 400
    assert len(read([chunk(), chunk()], budget, length=2000)) == 2000


def test_a_client_that_left_before_the_first_byte_is_gone():
    with pytest.raises(ClientGone):
        read([{"type": "http.disconnect"}], BodyBudget(), length=10)
