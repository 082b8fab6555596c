"""Closes the streams of tokens that were revoked, have expired, or whose space was archived."""

from pathlib import Path

from locks.events.stream.event_tail import EventTail
from locks.events.stream.watchers import CloseReason
from locks.postgresql.connections import AsyncConnection

_ACTIVE_TOKENS = (Path(__file__).parent / "sql" / "active_tokens.sql").read_text()


class Authorization:
    seconds = 2.0
    max_duty_cycle = 0.05

    def __init__(self, tail: EventTail) -> None:
        self._tail = tail

    @property
    def is_needed(self) -> bool:
        return self._tail.is_needed

    def connection_failed(self) -> None:
        """The event tail ends the streams."""

    async def poll(self, connection: AsyncConnection) -> bool:
        watchers = self._tail.watchers()
        token_ids = list({watcher.token_id for watcher in watchers})
        active = {token_id for (token_id,) in await (await connection.execute(_ACTIVE_TOKENS, [token_ids])).fetchall()}
        for watcher in watchers:
            if watcher.token_id not in active:
                watcher.close(CloseReason.UNAUTHORIZED)
        return False
