"""Values that threads share: a failure is kept for less time than a value."""

import itertools

import pytest
from django.db import OperationalError

from locks.system_state import ttl_cache


def test_a_failure_is_shared_and_soon_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """`/health` was 503 for five seconds when its check of the disk met a backend that was killed."""
    calls = itertools.count(1)

    def fetch() -> int:
        if (number := next(calls)) == 1:
            raise OperationalError("gone")
        return number

    monkeypatch.setattr(ttl_cache, "FAILURE_SECONDS", 3600)
    cache = ttl_cache.TTLCache(fetch, seconds=3600)
    for _ in range(2):
        with pytest.raises(OperationalError, match="gone"):
            cache()
    monkeypatch.setattr(ttl_cache, "FAILURE_SECONDS", 0)
    assert [cache()[0], cache()[0]] == [2, 2]
