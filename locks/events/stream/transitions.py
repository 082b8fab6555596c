"""Reads the transitions of locks from the history in commit order, in batches of bounded size."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from locks.engine.operations import Operation
from locks.engine.statements import Statement
from locks.events.history.commit_order import Position
from locks.events.stream.cursors import MAX_ID, Cursor

# However far behind a reader is, one statement reads no more transactions than this.
MAX_TRANSACTIONS = 50_000

# For `up_to`: no limit. One below the highest value, because the statement adds one to it.
LATEST = Position(2**62, MAX_ID)


class Transition(msgspec.Struct):
    """A row of sql/transitions.sql. The row without an id only carries `stop_before`, `timeline` and `now`."""

    stop_before: int
    timeline: int
    now: datetime
    commit_position: int | None
    id: int | None
    txid: int | None
    at: datetime | None
    kind: str | None
    space_id: int | None
    lock_name: str | None
    fencing_token: int | None
    owner: str | None
    metadata: str | None
    expires_at: datetime | None

    @property
    def position(self) -> Position:
        assert self.commit_position is not None
        assert self.id is not None
        return Position(self.commit_position, self.id)


@dataclass(frozen=True, kw_only=True)
class Transitions:
    """All transitions up to `cursor`. `more`: there may be others that were left out because of a limit."""

    transitions: list[Transition]
    cursor: Cursor
    more: bool


_TRANSITIONS = Statement(
    "transitions", (Path(__file__).parent / "sql" / "transitions.sql").read_text(), Transition, prepared=False
)


def read_transitions(
    after: Position,
    *,
    up_to: Position = LATEST,
    spaces: Sequence[int],
    name: str | None = None,
    limit: int,
    max_transactions: int = MAX_TRANSACTIONS,
) -> Operation[Transitions]:
    rows: list[Transition]
    rows = yield _TRANSITIONS, [after.commit_position, after.id, max_transactions, *up_to, list(spaces), name, limit]
    stop_before, timeline, now = rows[0].stop_before, rows[0].timeline, rows[0].now
    transitions = [row for row in rows if row.id is not None]
    if len(transitions) == limit:
        last = transitions[-1]
        return Transitions(transitions=transitions, cursor=Cursor(last.at or now, last.position, timeline), more=True)
    position = min(max(after, Position(stop_before - 1, MAX_ID)), max(after, up_to))
    return Transitions(
        transitions=transitions,
        cursor=Cursor(now, position, timeline),
        more=stop_before == after.commit_position + max_transactions,
    )
