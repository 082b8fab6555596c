"""Groups are served in turn, and none can keep the others out of the queue or off the threads."""

import asyncio
import threading
from collections.abc import Hashable

import pytest

from octoadmin.wsgi_bridge.fair_queue import FairQueue
from octoadmin.wsgi_bridge.threads import Overloaded, Threads


def popped(queue: FairQueue[str]) -> list[str]:
    items = []
    while (entry := queue.pop()) is not None:
        items.append(entry[1])
    return items


def test_a_group_with_one_item_does_not_wait_behind_the_many_of_another():
    queue: FairQueue[str] = FairQueue()
    for number in range(4):
        queue.append("flood", f"flood-{number}")
    queue.append("quiet", "quiet-0")
    queue.appendleft("flood", "flood-again")
    assert len(queue) == 6
    assert popped(queue) == ["flood-again", "quiet-0", "flood-0", "flood-1", "flood-2", "flood-3"]
    assert len(queue) == 0


def test_a_full_queue_still_has_an_equal_share_for_another_group():
    queue: FairQueue[str] = FairQueue()
    for _ in range(10):
        assert not queue.is_full("flood", max_length=10)
        queue.append("flood", "item")
    assert queue.is_full("flood", max_length=10)
    admitted = 0
    while not queue.is_full("quiet", max_length=10):
        queue.append("quiet", "item")
        admitted += 1
    assert admitted == 5


def test_many_groups_cannot_grow_the_queue_without_end():
    queue: FairQueue[str] = FairQueue()
    for number in range(100):
        if not queue.is_full(number, max_length=10):
            queue.append(number, "item")
    assert len(queue) == 20


def test_groups_that_are_left_out_keep_their_place():
    queue: FairQueue[str] = FairQueue()
    queue.append("a", "first")
    queue.append("b", "second")
    assert queue.pop(without={"a"}) == ("b", "second")
    assert queue.pop(without={"a"}) is None
    assert queue.pop() == ("a", "first")


@pytest.mark.parametrize("count", [2, 8])
def test_slow_jobs_of_one_group_leave_a_thread_to_the_others(count: int):
    """And they fill no more of the queue than leaves room for others."""
    release = threading.Event()
    threads = Threads(count=count, max_waiting=20, name="test")

    async def scenario() -> None:
        slow = [threads.submit(release.wait, group="slow") for _ in range(count)]
        while True:
            try:
                slow.append(threads.submit(release.wait, group="slow"))
            except Overloaded:
                break
        for group in ("quick", None, "quick"):
            assert await asyncio.wait_for(threads.submit(lambda group=group: group, group=group), 30) == group
        assert not any(job.done() for job in slow)
        release.set()
        assert await asyncio.wait_for(asyncio.gather(*slow), 30) == [True] * len(slow)

    asyncio.run(scenario())
    threads.stop(seconds=10)


def test_jobs_of_groups_that_share_the_threads_all_end():
    threads = Threads(count=4, max_waiting=1000, name="test")

    async def scenario() -> None:
        groups: list[Hashable] = [f"group-{number % 3}" for number in range(300)]
        jobs = [threads.submit(lambda group=group: group, group=group) for group in groups]
        assert await asyncio.wait_for(asyncio.gather(*jobs), 30) == groups

    asyncio.run(scenario())
    threads.stop(seconds=10)
