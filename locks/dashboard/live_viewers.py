"""The browser tabs that are open on spaces: notified of changes, and closed when their user loses access."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from locks.postgresql.connections import AsyncConnection

POLL_SECONDS = 1.0
# A poll takes at most this part of the time, however many locks there are.
MAX_DUTY_CYCLE = 0.05
# A user who was removed from the team or signed out loses the stream with the next check.
RECHECK_SECONDS = 1.0

# Of one server process.
MAX_VIEWERS = 5_000
MAX_VIEWERS_PER_TEAM = 1_000
MAX_VIEWERS_PER_USER = 50

_DIRECTORY = Path(__file__).parent
_LIVE_CHANGES = (_DIRECTORY / "live_changes.sql").read_text()
_AUTHORIZED_VIEWERS = (_DIRECTORY / "authorized_viewers.sql").read_text()


@dataclass(eq=False, kw_only=True)
class Viewer:
    """A tab. Changes add up until they are sent, so a slow tab costs no more than a number."""

    session_key: str
    user_id: int
    password_digest: str
    # None: the overview, which is not notified of changes. All overviews together have the share of a team.
    space_id: int | None
    team_id: int | None = None
    changes: int = 0
    is_gone: bool = False
    polled: asyncio.Event = field(default_factory=asyncio.Event)


class Viewers:
    """A poll job of the process' poller: how many events each space has had since the last poll, in commit order, and
    whether a value moved that leaves no event. Runs on the event loop."""

    def __init__(self) -> None:
        self.seconds = POLL_SECONDS
        self.max_duty_cycle = MAX_DUTY_CYCLE
        self._viewers: set[Viewer] = set()
        # Per space: the transaction up to which it was read, and the values that move without an event.
        self._positions: dict[int, int] = {}
        self._markers: dict[int, tuple[Any, ...]] = {}
        self._connection: AsyncConnection | None = None

    @property
    def is_needed(self) -> bool:
        return bool(self._viewers)

    def has_room_for(self, viewer: Viewer) -> bool:
        """One user, or the users of one team, cannot use up the streams of all others."""
        return (
            len(self._viewers) < MAX_VIEWERS
            and sum(other.user_id == viewer.user_id for other in self.all()) < MAX_VIEWERS_PER_USER
            and sum(other.team_id == viewer.team_id for other in self.all()) < MAX_VIEWERS_PER_TEAM
        )

    def add(self, viewer: Viewer) -> None:
        self._viewers.add(viewer)

    def remove(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)

    def all(self) -> list[Viewer]:
        return list(self._viewers)

    def connection_failed(self) -> None:
        """Pages notice that nothing is sent, and show that they are stale."""

    async def poll(self, connection: AsyncConnection) -> bool:
        """Every viewer is notified that the poll succeeded, and of what it found."""
        # Perhaps to another server, where the positions are others: every page fetches what it shows.
        is_another = self._connection not in (None, connection)
        if is_another:
            self._positions.clear()
            self._markers.clear()
        self._connection = connection
        spaces = {viewer.space_id for viewer in self._viewers if viewer.space_id is not None}
        for unwatched in self._markers.keys() - spaces:
            del self._markers[unwatched], self._positions[unwatched]
        parameters = [list(spaces), [self._positions.get(space_id) for space_id in spaces]]
        changes: dict[int, int] = {}
        for space_id, position, events, *values in await (
            await connection.execute(_LIVE_CHANGES, parameters)
        ).fetchall():
            marker = tuple(values)
            changes[space_id] = events or int(is_another or self._markers.get(space_id, marker) != marker)
            self._markers[space_id], self._positions[space_id] = marker, position
        for viewer in self._viewers:
            if viewer.space_id is not None:
                viewer.changes += changes.get(viewer.space_id, 0)
            viewer.polled.set()
        return False


class ViewerAuthorization:
    """A poll job that ends the streams of viewers without access."""

    def __init__(self, viewers: Viewers) -> None:
        self.seconds = RECHECK_SECONDS
        self.max_duty_cycle = MAX_DUTY_CYCLE
        self._viewers = viewers

    @property
    def is_needed(self) -> bool:
        return self._viewers.is_needed

    def connection_failed(self) -> None:
        """Pages notice that nothing is sent, and show that they are stale."""

    async def poll(self, connection: AsyncConnection) -> bool:
        viewers = self._viewers.all()
        parameters = [
            [viewer.session_key for viewer in viewers], [viewer.user_id for viewer in viewers],
            [viewer.password_digest for viewer in viewers], [viewer.space_id for viewer in viewers],
        ]  # fmt: skip
        rows = await (await connection.execute(_AUTHORIZED_VIEWERS, parameters)).fetchall()
        authorized = {position for (position,) in rows}
        for position, viewer in enumerate(viewers, start=1):
            if position not in authorized:
                viewer.is_gone = True
                viewer.polled.set()
        return False
