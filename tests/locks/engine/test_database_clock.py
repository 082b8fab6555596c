"""Stamps of arrivals, by the database's clock and without a statement."""

import time
from datetime import UTC, datetime

from locks.engine.database_clock import DatabaseClock

HOUR = 3600.0


def observe(clock: DatabaseClock, *, ahead: float, took: float = 0.0) -> None:
    """An answer of a database whose clock is so many seconds ahead; it was read when half of the time was over."""
    received = time.monotonic()
    now = datetime.fromtimestamp(received - took / 2 + ahead, UTC)
    clock.observe(now, sent_at=received - took, received_at=received)


def difference(clock: DatabaseClock) -> float:
    stamp = clock.stamp()
    assert stamp is not None
    return stamp / 1_000_000 - time.monotonic()


def test_there_is_no_stamp_before_the_first_answer():
    assert DatabaseClock().stamp() is None


def test_the_fastest_answers_count():
    clock = DatabaseClock()
    observe(clock, ahead=HOUR, took=0.5)
    observe(clock, ahead=HOUR, took=0.01)
    observe(clock, ahead=HOUR + 0.1, took=0.5)
    assert abs(difference(clock) - HOUR) < 0.01


def test_a_clock_that_was_set_is_followed():
    clock = DatabaseClock()
    observe(clock, ahead=HOUR, took=0.01)
    observe(clock, ahead=2 * HOUR, took=0.01)
    assert abs(difference(clock) - 2 * HOUR) < 0.01


def test_stamps_follow_a_clock_that_is_set_back():
    """Otherwise the waiters of this process would come after those of others until the old time is reached."""
    clock = DatabaseClock()
    observe(clock, ahead=HOUR)
    before = clock.stamp()
    observe(clock, ahead=0)
    first, second = clock.stamp(), clock.stamp()
    assert before is not None
    assert first is not None
    assert second is not None
    assert first < second < before
