"""The API as its callers see it, through Django's test client: method, path, token, JSON."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from locks.api.limits import limits
from locks.api.usage import usage

Call = Callable[..., HttpResponse]


@pytest.fixture(autouse=True)
def _fresh_process_state() -> None:
    limits.forget()
    usage.forget()


@pytest.fixture
def call(operator_token: str) -> Call:
    """call("POST", "/locks/a/acquire", {"ttl_seconds": 60}) with a token that may do everything to locks."""

    def request(
        method: str, path: str, body: Any = None, *, token: str | None = operator_token, raw: bytes | None = None,
        content_type: str = "application/json", **headers: str,
    ) -> HttpResponse:  # fmt: skip
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        data = raw if raw is not None else json.dumps(body).encode() if body is not None else b""
        return Client(raise_request_exception=False).generic(
            method, path, data, content_type=content_type if data else "", headers=headers
        )

    return request
