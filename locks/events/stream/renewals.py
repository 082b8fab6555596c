"""Tells watchers of renewals, which leave no event in the history: seen by looking, once a second."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from locks.engine.execution import run_async
from locks.engine.operations import Operation
from locks.engine.statements import Statement
from locks.events.stream.event_tail import EventTail
from locks.events.stream.sse import WatchEvent, message

MAX_AT_ONCE = 1_000
# A renewal is dated when it is asked for and seen when it is committed.
LATE = timedelta(seconds=2)


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
    asked: list[Any] = [[space_id for space_id, _name in names], [name for _space_id, name in names], spaces]
    return (yield _RENEWED, [*asked, since or "infinity", MAX_AT_ONCE])


class Renewals:
    seconds = 1.0
    max_duty_cycle = 0.05

    def __init__(self, following: EventTail) -> None:
        self._following = following
        self._since: datetime | None = None
        self._told: dict[tuple[int, str], datetime] = {}

    @property
    def is_needed(self) -> bool:
        return self._following.is_needed

    async def look(self, connection: psycopg.AsyncConnection[Any]) -> bool:
        asked = _renewed(self._following.level_names(), self._following.level_spaces(), self._since)
        rows = await run_async(connection, asked)
        fresh: dict[tuple[int, str], datetime] = {}
        for row in rows:
            if row.space_id is None or row.name is None or row.renewed_at is None:
                continue
            fresh[row.space_id, row.name] = row.renewed_at
            if self._told.get((row.space_id, row.name)) != row.renewed_at:
                self._tell(row)
        self._told = fresh
        self._since = rows[0].now - LATE
        return False

    def _tell(self, row: Renewed) -> None:
        assert row.space_id is not None
        assert row.name is not None
        watchers = self._following.level_watchers(row.space_id, row.name)
        text = message(
            WatchEvent(
                event="renewed",
                lock_name=row.name,
                fencing_token=row.fencing_token,
                owner=row.owner,
                metadata=row.metadata,
                expires_at=row.expires_at,
                observed_at=row.renewed_at or row.now,
            )
        )
        for watcher in watchers:
            watcher.send_ephemeral(text)
