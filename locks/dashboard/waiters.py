"""The first waiters in the queues of a few locks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from locks.dashboard.database import fetch
from locks.models import Space

MAX_WAITERS = 20


@dataclass(frozen=True, kw_only=True)
class QueuedWaiter:
    name: str
    owner: str
    enqueued_at: datetime


def waiters_of(*, space: Space, names: Sequence[str]) -> dict[str, list[QueuedWaiter]]:
    waiters: dict[str, list[QueuedWaiter]] = {name: [] for name in names}
    if names:
        parameters = {"space_id": space.pk, "names": list(names), "each": MAX_WAITERS}
        for waiter in fetch("waiters", QueuedWaiter, parameters):
            waiters[waiter.name].append(waiter)
    return waiters
