"""Ends the streams of tokens that were revoked, have expired, or whose space was archived."""

from pathlib import Path
from typing import Any

import psycopg

from locks.watching.following import Following
from locks.watching.watchers import Ending

_MAY_STILL_LISTEN = (Path(__file__).parent / "sql" / "may_still_listen.sql").read_text()


class Rights:
    seconds = 2.0
    most_load = 0.05

    def __init__(self, following: Following) -> None:
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
                watcher.end(Ending.NO_RIGHT)
        return False
