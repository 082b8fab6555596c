"""Values that threads share: a failure is kept for less time than a value."""

import itertools

import pytest
from django.db import OperationalError

from locks.system_state.ttl_cache import TTLCache
from tests.polling import until


def test_a_failure_is_shared_and_soon_tried_again() -> None:
    """`/health` was 503 for five seconds when its check of the disk met a backend that was killed."""
    calls = itertools.count(1)

    def fetch() -> int:
        if (number := next(calls)) == 1:
            raise OperationalError("gone")
        return number

    cache = TTLCache(fetch, seconds=3600)
    with pytest.raises(OperationalError, match="gone"):
        cache()

    def value() -> int | None:
        try:
            return cache()[0]
        except OperationalError:
            return None

    assert until(value) == 2
    assert cache()[0] == 2
