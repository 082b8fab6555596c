"""Ends the streams of tokens that were revoked, have expired, or whose space was archived."""

from pathlib import Path
from typing import Any

import psycopg

from locks.events.stream.event_tail import EventTail
from locks.events.stream.watchers import CloseReason

_MAY_STILL_LISTEN = (Path(__file__).parent / "sql" / "active_tokens.sql").read_text()


class Authorization:
    seconds = 2.0
    max_duty_cycle = 0.05

    def __init__(self, following: EventTail) -> None:
        self._following = following

    @property
    def is_needed(self) -> bool:
        return self._following.is_needed

    async def look(self, connection: psycopg.AsyncConnection[Any]) -> bool:
        watchers = self._following.watchers()
        asked = list({watcher.token_id for watcher in watchers})
        good = {token_id for (token_id,) in await (await connection.execute(_MAY_STILL_LISTEN, [asked])).fetchall()}
        for watcher in watchers:
            if watcher.token_id not in good:
                watcher.end(CloseReason.NO_RIGHT)
        return False
