"""The transitions of locks as the history tells them, in pieces of bounded size."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from locks.engine.operations import Operation
from locks.engine.statements import Statement
from locks.events.history.commit_order import Position
from locks.events.stream.cursors import HIGHEST, Cursor

# However far behind a reader is, one statement looks at no more than so many.
TRANSACTIONS_AT_ONCE = 50_000

# For `up_to`: as far as can be told. One can still be added to it.
AS_FAR_AS_POSSIBLE = Position(2**62, HIGHEST)


class Transition(msgspec.Struct):
    """A row of sql/transitions.sql; without an id it only tells how far the look went."""

    beyond: int
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
    """Everything up to `reached`, or as much of it as was asked for: then there is `more`."""

    transitions: list[Transition]
    reached: Cursor
    more: bool


_NEWS = Statement("news", (Path(__file__).parent / "sql" / "transitions.sql").read_text(), Transition, prepared=False)


def read_transitions(
    after: Position,
    *,
    up_to: Position = AS_FAR_AS_POSSIBLE,
    spaces: Sequence[int],
    name: str | None = None,
    limit: int,
    transactions: int = TRANSACTIONS_AT_ONCE,
) -> Operation[Transitions]:
    rows: list[Transition]
    rows = yield _NEWS, [after.commit_position, after.id, transactions, *up_to, list(spaces), name, limit]
    beyond, now = rows[0].beyond, rows[0].now
    transitions = [row for row in rows if row.id is not None]
    if len(transitions) == limit:
        last = transitions[-1]
        return Transitions(transitions=transitions, reached=Cursor(last.at or now, last.position), more=True)
    reached = min(max(after, Position(beyond - 1, HIGHEST)), max(after, up_to))
    return Transitions(
        transitions=transitions, reached=Cursor(now, reached), more=beyond == after.commit_position + transactions
    )
