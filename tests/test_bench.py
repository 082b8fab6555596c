"""Measurements that need nothing but this project, in miniature: otherwise nobody notices when one no longer runs."""

import pytest

from bench import waiting
from locks.models import Event, Waiter

pytestmark = pytest.mark.usefixtures("committed")


def test_waiting_is_measured(monkeypatch):
    for name, value in {"PAIRS": 3, "ROUNDS": 1, "CROWD": 20, "AT_ONCE": 10, "TURNS": 1, "SECONDS": 0.2}.items():
        monkeypatch.setattr(waiting, name, value)
    lines = list(waiting.lines())
    assert [line.split("|")[1].split(",")[0].strip() for line in lines[2:]] == [
        "release to the waiter's answer",
        "the same",
        "pairs per second while 20 wait ÷ while nobody does",
        "memory of the server's process before",
    ]
    assert Event.objects.filter(kind="acquired", lock_name__startswith="pair-0-").count() == 2 * waiting.PAIRS
    assert not Waiter.objects.exists()
