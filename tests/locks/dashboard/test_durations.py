"""Spans of time in words."""

import pytest

from locks.dashboard.durations import humanize, humanize_ms


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3, "0 s"),
        (48.9, "48 s"),
        (60, "1 min 00 s"),
        (724, "12 min 04 s"),
        (3_600, "1 h 00 min"),
        (86_399, "23 h 59 min"),
        (187_200, "2 d 4 h"),
    ],
)
def test_the_two_largest_units(seconds, words):
    assert humanize(seconds) == words


@pytest.mark.parametrize(("ms", "words"), [(7, "7 ms"), (1_250, "1.2 s"), (65_000, "1 min 05 s")])
def test_short_ones_more_exactly(ms, words):
    assert humanize_ms(ms) == words
