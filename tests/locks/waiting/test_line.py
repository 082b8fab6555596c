"""The line of a process, by itself: what cannot be timed from outside."""

import asyncio
from hashlib import sha256

import pytest

from locks.engine import requests
from locks.models import Event, Lock
from locks.waiting.line import Gone, Line
from tests.conftest import issue

pytestmark = pytest.mark.usefixtures("committed")


@pytest.fixture
def asked(space):
    digest = sha256(issue(space, "worker", "locks:write").encode()).hexdigest()
    return requests.Acquire(digest=digest, name="deploy", ttl_seconds=60)


def test_whoever_has_hung_up_by_its_turn_is_granted_nothing(asked):
    async def hang_up() -> None:
        line = Line()
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        gone.set_result(None)
        try:
            with pytest.raises(Gone):
                await line.turn(asked, wait_seconds=5, gone=gone)
        finally:
            await line.close()

    asyncio.run(hang_up())
    assert not Lock.objects.filter(lease_id__isnull=False).exists()
    assert not Event.objects.filter(kind="acquired").exists()
