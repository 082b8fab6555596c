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


def _only(column: Any) -> Any:
    return column


ACQUIRE = _load("acquire", outcomes.Acquired)
ACQUIRE_ALL = _load("acquire_all", outcomes.AcquiredTogether)
ATTEND = _load("attend", outcomes.Attended)
AWAIT = _load("await", _nothing)
AWAIT_KEY = _load("await_key", _nothing)
CLAIM_NEXT = _load("claim_next", outcomes.Claimed)
COUNT_LIVE = _load("count_live", _nothing)
END_BACKENDS = _load("end_backends", _nothing)
FORCE_RELEASE = _load("force_release", outcomes.ForceReleased)
INSPECT = _load("inspect", outcomes.Inspected)
KEEP_ALIVE = _load("keep_alive", outcomes.KeptAlive)
LEAVE_LINE = _load("leave_line", outcomes.Left)
LIST_BY_NAME = _load("list_by_name", outcomes.Listed, prepared=False)
LIST_BY_TIME = _load("list_by_time", outcomes.Listed, prepared=False)
LIST_SESSIONS = _load("list_sessions", outcomes.SessionSeen)
OPEN_NAMES = _load("open_names", outcomes.LockName)
OPEN_SESSION = _load("open_session", outcomes.SessionSeen)
PICK_UP = _load("pick_up", outcomes.PickedUp)
RELEASE = _load("release", outcomes.Released)
RENEW = _load("renew", outcomes.Renewed)
RETIRE = _load("retire", _nothing)
SEED = _load("seed", _nothing)
SETTLE = _load("settle", outcomes.Settled)
STAND_IN_LINE = _load("stand_in_line", outcomes.Placed)
WAITERS_OF = _load("waiters_of", _only)
