"""Learns from the history how long each lock is usually held, for what has been held for a while."""

from pathlib import Path
from typing import Any

from locks.engine.operations import Operation
from locks.engine.statements import Statement

# One commit for so many locks. What is left is learned the next time.
LOCKS_AT_ONCE = 2_000
MAX_ROUNDS = 10

_DIRECTORY = Path(__file__).parent / "sql"


def _only(column: Any = None) -> Any:
    return column


_LEARN = Statement("usual_holds", (_DIRECTORY / "hold_baselines.sql").read_text(), _only, prepared=False)
_FORGET = Statement(
    "purge_hold_baselines", (_DIRECTORY / "purge_hold_baselines.sql").read_text(), _only, prepared=False
)


def compute_hold_baselines() -> Operation[int]:
    """Tells how many holds were judged."""
    learned = 0
    for _round in range(MAX_ROUNDS):
        (number,) = yield _LEARN, [LOCKS_AT_ONCE]
        learned += number
        if number < LOCKS_AT_ONCE:
            break
    return learned


def purge_hold_baselines() -> Operation[None]:
    yield _FORGET, []
