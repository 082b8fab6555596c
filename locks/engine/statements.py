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
    """`row` makes a result of a row's columns. A statement that is not `prepared` is planned with its values."""

    name: str
    sql: str
    row: Callable[..., Row]
    prepared: bool = True


def _load(name: str, row: Callable[..., Row], *, prepared: bool = True) -> Statement[Row]:
    return Statement(name, (_DIRECTORY / f"{name}.sql").read_text(), row, prepared)


def _nothing(*_columns: Any) -> None:
    return None


def _scalar(column: Any) -> Any:
    return column


ACQUIRE = _load("acquire", results.Acquired)
ACQUIRE_ALL = _load("acquire_all", results.AcquireAllRow)
CLAIM_NEXT = _load("claim_next", results.Claimed)
RENEW = _load("renew", results.Renewed)
RELEASE = _load("release", results.Released)
INSPECT = _load("inspect", results.Inspected)
CHECK = _load("check", results.Checked)
CHANGE_RESERVATION = _load("change_reservation", results.ReservationChanged)
SET_ACL = _load("set_acl", results.AclSet)
LIST_LOCKS = _load("list_locks", results.Listed, prepared=False)
END_AND_HAND_OVER = _load("end_and_hand_over", results.EndedAndHandedOver)

OPEN_SESSION = _load("open_session", results.SessionRow)
KEEP_ALIVE = _load("keep_alive", results.KeptAlive)
LIST_SESSIONS = _load("list_sessions", results.SessionRow)

ENQUEUE = _load("enqueue", results.Enqueued)
DEQUEUE = _load("dequeue", results.Dequeued)
CLAIM_HANDOVER = _load("claim_handover", results.Handover)
FREE_NAMES_WITH_WAITERS = _load("free_names_with_waiters", results.FreeName)
NAMESPACE_HANDOVERS = _load("namespace_handovers", results.NamespaceHandover)
WAITERS_OF = _load("waiters_of", _scalar)
SERVER_HEARTBEAT = _load("server_heartbeat", results.HeartbeatResult)
DELETE_SERVER = _load("delete_server", _nothing)

INSERT_MISSING = _load("insert_missing", _nothing)
WAIT_FOR_ROW = _load("wait_for_row", _nothing)
WAIT_FOR_KEY = _load("wait_for_key", _nothing)
COUNT_LIVE = _load("count_live", _nothing)
COUNT_IN_FLIGHT = _load("count_in_flight", _scalar)
END_BACKENDS = _load("end_backends", _nothing)

# Planned with their values: a generic plan might not use the index on the timer.
SWEEP = _load("sweep", results.Swept, prepared=False)
SWEEP_SESSIONS = _load("sweep_sessions", results.SweptSessions, prepared=False)
STALE_USAGE = _load("stale_usage", _scalar, prepared=False)
STORAGE_TO_COUNT = _load("storage_to_count", _scalar, prepared=False)
COUNT_STORAGE = _load("count_storage", _nothing, prepared=False)
PURGE_IDLE_LOCKS = _load("purge_idle_locks", results.Purged, prepared=False)
PURGE_SESSIONS = _load("purge_sessions", _nothing, prepared=False)
PURGE_WAITERS = _load("purge_waiters", _nothing, prepared=False)
