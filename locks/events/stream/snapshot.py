"""Where a watcher begins: with a snapshot and the position that belongs to it, or where it was before."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec
from django.db import connection, transaction

from locks.engine.execution import run
from locks.engine.operations import Operation
from locks.engine.statements import Statement
from locks.events.stream.cursors import Cursor, at_snapshot


class Snapshot(msgspec.Struct):
    snapshot: str
    beyond: int
    now: datetime
    kept_since: datetime | None

    @property
    def bookmark(self) -> Cursor:
        return at_snapshot(self.snapshot, self.now)

    def reaches_back_to(self, bookmark: Cursor) -> bool:
        """False if events after it may be gone, or if it is of another history: one that was restored starts anew."""
        old = self.kept_since is not None and bookmark.at < self.kept_since
        return not old and max(bookmark.position.commit_position, bookmark.seen.beyond - 1) < self.beyond


_SNAPSHOT = Statement(
    "snapshot", (Path(__file__).parent / "sql" / "snapshot.sql").read_text(), Snapshot, prepared=False
)


def _snapshot() -> Operation[Snapshot]:
    (row,) = yield _SNAPSHOT, []
    return row  # type: ignore[no-any-return]


@contextmanager
def one_snapshot() -> Iterator[Snapshot]:
    """Everything that is read inside is as of one moment, and whatever it does not show comes after its bookmark."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield run(_snapshot())
