"""Where a watch begins: a snapshot of the locks and the stream cursor that belongs to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec
from django.db import connection, transaction

from locks.engine.execution import run
from locks.engine.operations import Operation
from locks.engine.statements import Statement
from locks.events.stream.cursors import Cursor, cursor_of_snapshot


class Snapshot(msgspec.Struct):
    snapshot: str
    xmax: int
    timeline: int
    now: datetime
    history_start: datetime | None

    @property
    def cursor(self) -> Cursor:
        return cursor_of_snapshot(self.snapshot, self.timeline, self.now)

    def has_timeline_of(self, cursor: Cursor) -> bool:
        """Cursors of version 0.2 have none, and count as of this one."""
        return cursor.timeline in (None, self.timeline)

    def can_resume(self, cursor: Cursor) -> bool:
        """False if events after the cursor may have been purged, or if it is from before a restore into a new server,
        where transaction ids start again."""
        purged = self.history_start is not None and cursor.at < self.history_start
        return not purged and max(cursor.position.commit_position, cursor.visibility.xmax - 1) < self.xmax


_SNAPSHOT = Statement(
    "snapshot", (Path(__file__).parent / "sql" / "snapshot.sql").read_text(), Snapshot, prepared=False
)


def _snapshot() -> Operation[Snapshot]:
    (row,) = yield _SNAPSHOT, []
    return row  # type: ignore[no-any-return]  # an Operation is sent rows of any type


@contextmanager
def read_snapshot() -> Iterator[Snapshot]:
    """Everything that is read inside is as of one moment; what it does not show comes after the snapshot's cursor."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield run(_snapshot())
