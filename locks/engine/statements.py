"""The named SQL statements, one file each in sql/."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from locks.engine import outcomes

_DIRECTORY = Path(__file__).parent / "sql"

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Statement(Generic[Row]):
    """`row` makes an outcome of a row's columns. A statement that is not `prepared` is planned with its values."""

    name: str
    sql: str
    row: Callable[..., Row]
    prepared: bool = True


def _load(name: str, row: Callable[..., Row], *, prepared: bool = True) -> Statement[Row]:
    return Statement(name, (_DIRECTORY / f"{name}.sql").read_text(), row, prepared)


def _nothing(*_columns: Any) -> None:
    return None


ACQUIRE = _load("acquire", outcomes.Acquired)
ACQUIRE_ALL = _load("acquire_all", outcomes.AcquiredTogether)
AWAIT = _load("await", _nothing)
AWAIT_KEY = _load("await_key", _nothing)
CLAIM_NEXT = _load("claim_next", outcomes.Claimed)
COUNT_LIVE = _load("count_live", _nothing)
FORCE_RELEASE = _load("force_release", outcomes.ForceReleased)
INSPECT = _load("inspect", outcomes.Inspected)
LIST_BY_NAME = _load("list_by_name", outcomes.Listed, prepared=False)
LIST_BY_TIME = _load("list_by_time", outcomes.Listed, prepared=False)
RELEASE = _load("release", outcomes.Released)
RENEW = _load("renew", outcomes.Renewed)
SEED = _load("seed", _nothing)
