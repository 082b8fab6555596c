"""How long each lock is usually held, computed from its history for every hold that lasts longer than a minute."""

from pathlib import Path
from typing import Any

from locks.engine.operations import Operation
from locks.engine.statements import Statement

# Locks per commit and commits per run; the next run computes the rest.
BATCH_SIZE = 2_000
MAX_BATCHES = 10

_DIRECTORY = Path(__file__).parent / "sql"


def _only_column(column: Any = None) -> Any:
    return column


_COMPUTE = Statement("hold_baselines", (_DIRECTORY / "hold_baselines.sql").read_text(), _only_column, prepared=False)
_PURGE = Statement(
    "purge_hold_baselines", (_DIRECTORY / "purge_hold_baselines.sql").read_text(), _only_column, prepared=False
)


def compute_hold_baselines() -> Operation[int]:
    """Returns for how many holds a baseline was computed."""
    computed = 0
    for _batch in range(MAX_BATCHES):
        (number,) = yield _COMPUTE, [BATCH_SIZE]
        computed += number
        if number < BATCH_SIZE:
            break
    return computed


def purge_hold_baselines() -> Operation[None]:
    yield _PURGE, []
