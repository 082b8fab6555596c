"""Bodies are bounded in size, in time and in their total memory."""

import asyncio
from typing import Any

import pytest

from locks import token_format
from locks.api.errors import ApiError
from locks.api.limits import limits
from octoadmin.http.asgi_types import ClientGone
from octoadmin.wsgi_bridge.request_body import MAX_UNCHECKED_BODY, BodyBudget, read_body

CHUNK = b"x" * 1000


ADDRESS = "192.0.2.1"


def read(
    messages: list[dict[str, Any]], budget: BodyBudget, *, length: int, address: str = ADDRESS, **environ: str
) -> bytes:
    arriving = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(arriving)

    scope = {"type": "http", "http_version": "1.1"}
    environ = {"CONTENT_LENGTH": str(length), "REMOTE_ADDR": address, "PATH_INFO": "/", **environ}
    return asyncio.run(read_body(scope, environ, receive, budget))


def chunk(more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": CHUNK, "more_body": more}


def test_a_body_counts_against_the_budget_until_it_is_given_back():
    budget = BodyBudget(2500)
    body = read([chunk(), chunk(more=False)], budget, length=2000)
    with pytest.raises(ApiError) as refused:
        read([chunk(more=False)], budget, length=1000)
    assert refused.value.status == 503
    budget.give_back(ADDRESS, len(body))
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


def test_one_network_cannot_use_up_the_budget_of_all():
    budget = BodyBudget(100_000, 2_500)
    hoarded = read([chunk(), chunk(more=False)], budget, length=2000, address="2001:db8::1")
    for address, admitted in (("2001:db8::2", False), ("2001:db8:0:1::1", True), (ADDRESS, True)):
        if admitted:
            assert read([chunk(more=False)], budget, length=1000, address=address) == CHUNK
        else:
            with pytest.raises(ApiError) as refused:
                read([chunk(more=False)], budget, length=1000, address=address)
            assert refused.value.status == 503
    budget.give_back("2001:db8::/64", len(hoarded))
    assert read([chunk(more=False)], budget, length=1000, address="2001:db8::2") == CHUNK


def unread(path: str, *, length: int, token: str = "") -> int:
    """The status of a request that is refused before its body was read."""
    with pytest.raises(ApiError) as refused:
        read([], BodyBudget(), length=length, PATH_INFO=path, HTTP_AUTHORIZATION=f"Bearer {token}" if token else "")
    return refused.value.status


@pytest.mark.parametrize("path", ["/sessions", "/locks/a/acquire", "/locks/renew-all", "/webhooks"])
def test_a_body_without_a_token_is_not_read(path: str):
    limits.reset()
    assert unread(path, length=MAX_UNCHECKED_BODY + 1) == 401
    assert unread(path, length=MAX_UNCHECKED_BODY + 1, token="octo_nonsense") == 401


def test_a_body_that_is_too_large_for_its_route_is_not_read():
    token = token_format.generate()
    assert unread("/locks/a/acquire", length=64 * 1024 + 1, token=token) == 413
    assert unread("/sessions", length=64 * 1024 + 1, token=token) == 413
    assert unread("/locks/renew-all", length=512 * 1024 + 1, token=token) == 413
    assert unread("/ui/sign-in", length=1024 * 1024 + 1) == 413


@pytest.mark.parametrize("encoding", ["gzip", "gzip, chunked", "chunked, identity", "identity"])
def test_other_transfer_encodings_are_refused(encoding: str):
    with pytest.raises(ApiError) as refused:
        read([chunk(more=False)], BodyBudget(), length=1000, HTTP_TRANSFER_ENCODING=encoding)
    assert refused.value.status == 400
