"""The named SQL statements, one file each in sql/."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from locks.engine import results

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


ACQUIRE = _load("acquire", results.Acquired)
ACQUIRE_ALL = _load("acquire_all", results.AcquireAllRow)
SERVER_HEARTBEAT = _load("server_heartbeat", results.HeartbeatResult)
WAIT_FOR_ROW = _load("wait_for_row", _nothing)
WAIT_FOR_KEY = _load("wait_for_key", _nothing)
CLAIM_NEXT = _load("claim_next", results.Claimed)
COUNT_LIVE = _load("count_live", _nothing)
END_BACKENDS = _load("end_backends", _nothing)
FORCE_RELEASE = _load("force_release", results.ForceReleased)
INSPECT = _load("inspect", results.Inspected)
KEEP_ALIVE = _load("keep_alive", results.KeptAlive)
DEQUEUE = _load("dequeue", results.Dequeued)
LIST_BY_NAME = _load("list_by_name", results.Listed, prepared=False)
LIST_BY_TIME = _load("list_by_time", results.Listed, prepared=False)
LIST_SESSIONS = _load("list_sessions", results.SessionRow)
FREE_NAMES_WITH_WAITERS = _load("free_names_with_waiters", results.LockKey)
OPEN_SESSION = _load("open_session", results.SessionRow)
CLAIM_HANDOVER = _load("claim_handover", results.Handover)
RELEASE = _load("release", results.Released)
RENEW = _load("renew", results.Renewed)
DELETE_SERVER = _load("delete_server", _nothing)
INSERT_MISSING = _load("insert_missing", _nothing)
END_AND_HAND_OVER = _load("end_and_hand_over", results.EndedAndHandedOver)
ENQUEUE = _load("enqueue", results.Enqueued)
WAITERS_OF = _load("waiters_of", _only)
