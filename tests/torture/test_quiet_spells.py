"""The spells of the torture suite end when the background task of the waiters does."""

from locks.queue import on_demand_task
from tests.torture.quiet_spells import AFTER_SECONDS, TASK_SECONDS, after_spell, spells


def test_a_spell_is_as_long_as_the_background_task_runs_without_waiters():
    assert TASK_SECONDS == on_demand_task.IDLE_SECONDS


def test_no_fault_begins_near_a_spell():
    first, second = spells(1, 1000.0, seconds=240, servers=2)
    assert after_spell([first, second], 1001.0) == 1001.0
    assert after_spell([first, second], first.begins - 1) == first.begins + AFTER_SECONDS
    assert after_spell([first, second], first.begins + 100) == first.begins + 100
