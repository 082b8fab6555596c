"""Overview: the spaces that a user may see, each with its counts."""

from dataclasses import dataclass
from datetime import datetime

from locks.dashboard.access import annotate_stuck, visible_spaces
from locks.dashboard.now.queries import Counters, counters
from locks.models import Space, User
from locks.system_state.counters import counters as system_counters
from locks.system_state.health import unhealthy_parts

MAX_SPACES = 200


@dataclass(frozen=True, kw_only=True)
class SpaceRow:
    # With `role` and `stuck`.
    space: Space
    counters: Counters


@dataclass(frozen=True, kw_only=True)
class Overview:
    rows: list[SpaceRow]
    # Only the first MAX_SPACES are listed.
    has_more: bool
    # How many parts of the background need action, as in the navigation of a space.
    system_problems: int
    now: datetime

    def total(self, name: str) -> int:
        return sum(getattr(row.counters, name) for row in self.rows)

    @property
    def totals(self) -> dict[str, int]:
        return {name: self.total(name) for name in ("held", "waiting", "expiring", "overdue")} | {
            "stuck": sum(row.space.stuck for row in self.rows)  # type: ignore[attr-defined]  # annotated
        }


def overview(user: User) -> Overview:
    spaces = list(annotate_stuck(visible_spaces(user))[: MAX_SPACES + 1])
    counted = counters(spaces=spaces[:MAX_SPACES])
    system = system_counters()
    return Overview(
        rows=[SpaceRow(space=space, counters=counted[space.pk]) for space in spaces[:MAX_SPACES]],
        has_more=len(spaces) > MAX_SPACES,
        system_problems=len(unhealthy_parts(system)),
        now=system.server_time,
    )
