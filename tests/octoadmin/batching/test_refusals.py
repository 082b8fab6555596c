"""Refusals of requests that are not hot calls: as Django's, and without a thread of it."""

import asyncio

import pytest
from whitenoise.middleware import WhiteNoiseMiddleware

from locks.api.limits import limits
from locks.models import Space
from octoadmin.batching import refusals
from tests.octoadmin.batching.both_paths import HOST, Paths, counted, on_paths
from tests.octoadmin.batching.test_same_answers import Side
from tests.octoadmin.http_client import ask, listening
from tests.polling import async_until

SESSION = "/sessions/3f8e4a4c-6b5c-4ca8-9a8f-0f6ea4f4d9a5"
REFUSED = [
    ("GET", "/whoami"), ("PUT", "/whoami"), ("POST", "/sessions"), ("DELETE", SESSION),
    ("POST", f"{SESSION}/keepalive"),
    ("GET", "/locks?prefix=a"), ("POST", "/locks/acquire-all"), ("GET", "/events/export"), ("GET", "/watch"),
    ("GET", "/webhooks"), ("POST", "/auth/token/rotate"), ("GET", "/locks/a/history"),
]  # fmt: skip
# Requests that need no token, and paths that lead nowhere.
OTHERS = [("GET", "/nowhere"), ("GET", "/sessions/x"), ("GET", "/ui/sign-in")]


def by_django() -> float:
    return counted("octoadmin_request_seconds_count", kind="django")


@pytest.mark.parametrize("token", [None, "Bearer wrong", "basic x"])
def test_a_request_without_a_valid_token_is_refused_as_by_django(committed: None, token: str | None) -> None:
    async def scenario(paths: Paths) -> None:
        async with listening(paths.bridge) as django_only:
            sides = [Side(paths.port, {}), Side(django_only, {})]
            for method, path in REFUSED:
                limits.reset()
                asked = {"method": method, "path": path, "token": token, "body": b"", "headers": [], "pieces": 1}
                before = by_django()
                early = sides[0].understood(await sides[0].ask(**asked))
                assert early == sides[1].understood(await sides[1].ask(**asked)), path
                assert early[0] == 401
                # Counted after the response: the second request, and not the first.
                await async_until(lambda before=before: by_django() > before)
                assert by_django() == before + 1, path

    on_paths("", scenario)


def test_a_token_over_its_limit_is_refused_without_a_thread(committed: None, space: Space, worker_token: str) -> None:
    Space.objects.filter(pk=space.pk).update(requests_per_second=1)

    async def scenario(paths: Paths) -> None:
        limits.reset()
        before, served = by_django(), 0
        while (await paths.call("GET", "/whoami")).status != 429:
            served += 1
        await async_until(lambda: by_django() == before + served)
        before += served
        refused = await paths.call("POST", "/sessions", {"ttl_seconds": 30})
        assert (refused.status, refused.json["code"]) == (429, "rate_limited")
        assert int(refused.headers["retry-after"]) >= 1
        assert (await paths.call("GET", "/health")).status == 200
        # Counted after the response: the health check, and not the refusal.
        await async_until(lambda: by_django() > before)
        assert by_django() == before + 1

    on_paths(worker_token, scenario)
    limits.reset()


@pytest.mark.parametrize("path", ["/locks/a", "/whoami"])
def test_a_refusal_is_held_back_without_holding_up_others(
    committed: None, monkeypatch: pytest.MonkeyPatch, worker_token: str, path: str
) -> None:
    monkeypatch.setattr(refusals, "REFUSAL_SECONDS", 3600)
    limits.reset()

    async def scenario(paths: Paths) -> None:
        refused = asyncio.create_task(ask(paths.port, "GET", path, [HOST]))
        for served in ("/locks/a", "/whoami", "/health"):
            assert (await paths.call("GET", served)).status == 200
        assert not refused.done()
        refused.cancel()

    on_paths(worker_token, scenario)


def test_what_needs_no_token_is_left_to_django(committed: None) -> None:
    async def scenario(paths: Paths) -> None:
        side = Side(paths.port, {})
        for method, path in OTHERS:
            before = by_django()
            await side.ask(method, path, token="Bearer wrong", body=b"", headers=[], pieces=1)
            await async_until(lambda before=before: by_django() == before + 1)

    limits.reset()
    on_paths("", scenario)
    limits.reset()


def test_a_refusal_of_a_view_for_the_first_time_builds_no_middleware(
    committed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WhiteNoise's reads all static files, and the event loop would stand still meanwhile."""

    def build(*_: object) -> None:
        raise AssertionError

    async def scenario(paths: Paths) -> None:
        refusals._headers.cache_clear()
        monkeypatch.setattr(WhiteNoiseMiddleware, "__init__", build)
        assert (await ask(paths.port, "GET", "/whoami", [HOST])).status == 401

    limits.reset()
    on_paths("", scenario)
