"""Cursors are opaque, and a forged one is refused like any other invalid input."""

import base64
import json

import pytest

from tests.conftest import issue

pytestmark = pytest.mark.django_db

AT = "2026-01-31T12:00:00Z"


def forge(key: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


@pytest.fixture
def token(space) -> str:
    return issue(space, "reader", "locks:read", "audit:read", "webhooks:manage", "tokens:manage")


@pytest.fixture(params=["/events", "/locks/job/history", "/tokens", "/webhooks/{webhook}/deliveries", "/locks"])
def path(request, call, token) -> str:
    body = {"url": "https://hooks.example.com/"}
    webhook = call("POST", "/webhooks", body, token=token).json()["id"]
    return request.param.format(webhook=webhook)


@pytest.mark.parametrize(
    "cursor",
    [
        "x", "é", "%00", "=", "e30", "a" * 5000, forge(None), forge([]), forge(7), forge({"id": None, "at": AT}),
        forge({"id": "7", "at": AT, "name": 7, "sort": "name"}), forge({"id": 2**63, "at": AT}),
        forge({"id": -1, "at": AT}), forge({"id": 10**400, "at": AT}), forge({"id": 1.5, "at": AT}),
        forge({"id": True, "at": AT}),
        forge({"id": 7, "at": AT, "direction": "sideways"}), forge({"name": "a\0", "sort": "name"}),
        forge({"name": "a", "sort": "colour"}),
        forge({"name": "a", "sort": "name", "time": "0000-01-01T00:00:00Z"}),
    ],
)  # fmt: skip
def test_a_forged_cursor_is_refused(call, token, path, cursor) -> None:
    refused = call("GET", f"{path}?cursor={cursor}", token=token)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")


@pytest.mark.parametrize("at", [7, "yesterday", "2026-01-31T12:00:00", "10000-01-01T00:00:00Z", None])
@pytest.mark.parametrize("path", ["/events", "/locks/job/history"])
def test_a_cursor_with_an_impossible_time_is_refused(call, token, path, at) -> None:
    refused = call("GET", f"{path}?cursor={forge({'id': 7, 'at': at})}", token=token)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")


@pytest.mark.parametrize("direction", ["older", "newer"])
@pytest.mark.parametrize(
    "at",
    ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2026-01-31T12:00:00+23:59"],
)
def test_the_ends_of_time_are_found(call, token, at, direction) -> None:
    call("POST", "/locks/job/acquire")
    cursor = forge({"id": 2**63 - 1, "at": at, "direction": direction})
    for path in ("/events", "/locks/job/history"):
        assert call("GET", f"{path}?cursor={cursor}", token=token).status_code == 200
    cursor = forge({"sort": "expires_at", "name": "a", "time": at})
    assert call("GET", f"/locks?sort=expires_at&cursor={cursor}", token=token).status_code == 200
