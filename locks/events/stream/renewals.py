"""Sends renewals to watchers. They leave no event in the history, so the lock table is polled once a second."""

from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from locks.engine.execution import run_async
from locks.engine.operations import Operation
from locks.engine.statements import Statement
from locks.events.stream.event_tail import EventTail
from locks.events.stream.watch_event import WatchEvent, encode
from locks.postgresql.connections import AsyncConnection

MAX_RENEWALS = 1_000
# A renewal is dated before it commits, so each poll also reads this far back.
OVERLAP = timedelta(seconds=2)


class Renewed(msgspec.Struct):
    now: datetime
    space_id: int | None
    name: str | None
    fencing_token: int | None
    owner: str | None
    metadata: str | None
    expires_at: datetime | None
    renewed_at: datetime | None


_RENEWED = Statement("renewed", (Path(__file__).parent / "sql" / "renewed.sql").read_text(), Renewed, prepared=False)


def _renewed(names: list[tuple[int, str]], spaces: list[int], since: datetime | None) -> Operation[list[Renewed]]:
    space_ids, lock_names = [space_id for space_id, _name in names], [name for _space_id, name in names]
    return (yield _RENEWED, [space_ids, lock_names, spaces, since or "infinity", MAX_RENEWALS])


class Renewals:
    seconds = 1.0
    max_duty_cycle = 0.05

    def __init__(self, tail: EventTail) -> None:
        self._tail = tail
        self._since: datetime | None = None
        self._sent: dict[tuple[int, str], datetime] = {}

    @property
    def is_needed(self) -> bool:
        return self._tail.is_needed

    def connection_failed(self) -> None:
        """The event tail ends the streams."""

    async def poll(self, connection: AsyncConnection) -> bool:
        rows = await run_async(
            connection, _renewed(self._tail.watched_names(), self._tail.watched_spaces(), self._since)
        )
        sent: dict[tuple[int, str], datetime] = {}
        for row in rows:
            if row.space_id is None or row.name is None or row.renewed_at is None:
                continue
            sent[row.space_id, row.name] = row.renewed_at
            if self._sent.get((row.space_id, row.name)) != row.renewed_at:
                self._send(row, space_id=row.space_id, name=row.name, renewed_at=row.renewed_at)
        self._sent = sent
        self._since = rows[0].now - OVERLAP
        return False

    def _send(self, row: Renewed, *, space_id: int, name: str, renewed_at: datetime) -> None:
        chunk = encode(
            WatchEvent(
                event="renewed",
                lock_name=name,
                fencing_token=row.fencing_token,
                owner=row.owner,
                metadata=row.metadata,
                expires_at=row.expires_at,
                observed_at=renewed_at,
            )
        )
        for watcher in self._tail.caught_up_watchers(space_id, name):
            watcher.send_ephemeral(chunk)
