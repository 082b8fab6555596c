"""Threads compute one at a time, and a thread that waits is in no one's way."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from locks.compute_turn import ComputeTurn

LONG = 30.0


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as threads:
        yield threads


def test_a_second_thread_computes_when_the_first_has_ended(pool):
    turn = ComputeTurn(max_seconds=LONG)
    begun, may_end, computed = threading.Event(), threading.Event(), []

    def first() -> None:
        begun.set()
        may_end.wait(LONG)
        computed.append("first")

    running = pool.submit(turn.run, first)
    assert begun.wait(LONG)
    waiting = pool.submit(turn.run, lambda: computed.append("second"))
    may_end.set()
    running.result(LONG)
    waiting.result(LONG)
    assert computed == ["first", "second"]


def test_a_thread_that_waits_leaves_the_turn_to_others(pool):
    turn = ComputeTurn(max_seconds=LONG)
    waits, answer = threading.Event(), threading.Event()

    def database_call() -> bool:
        waits.set()
        return answer.wait(LONG)

    waiting = pool.submit(turn.run, lambda: turn.wait(database_call))
    assert waits.wait(LONG)
    # It would block until `answer` is set if the turn was not given up.
    assert pool.submit(turn.run, lambda: "computed").result(LONG / 2) == "computed"
    answer.set()
    assert waiting.result(LONG) is True


def test_a_turn_that_lasts_too_long_is_passed_on_and_ends_no_other(pool):
    turn = ComputeTurn(max_seconds=0.01)
    begun, may_end = threading.Event(), threading.Event()

    def hangs() -> None:
        begun.set()
        may_end.wait(LONG)

    hanging = pool.submit(turn.run, hangs)
    assert begun.wait(LONG)
    assert pool.submit(turn.run, lambda: "passed on").result(LONG / 2) == "passed on"
    may_end.set()
    hanging.result(LONG)
    assert [pool.submit(turn.run, lambda: "next").result(LONG / 2) for _ in range(3)] == ["next"] * 3


def test_a_job_that_fails_ends_its_turn(pool):
    turn = ComputeTurn(max_seconds=LONG)
    with pytest.raises(ZeroDivisionError):
        pool.submit(turn.run, lambda: 1 // 0).result(LONG)
    assert pool.submit(turn.run, lambda: "next").result(LONG / 2) == "next"


def test_a_thread_without_turns_waits_for_none(pool):
    turn = ComputeTurn(max_seconds=LONG)
    assert pool.submit(turn.wait, lambda: "done").result(LONG) == "done"
