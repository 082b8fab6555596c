"""The latest lease of a space, which shows that a worker is connected."""

from dataclasses import dataclass
from datetime import datetime

from locks.dashboard.database import fetch
from locks.models import Space


@dataclass(frozen=True, kw_only=True)
class FirstLease:
    name: str
    owner: str
    token: str
    at: datetime
    is_first: bool
    now: datetime


def first_lease(*, space: Space) -> FirstLease | None:
    return next(iter(fetch("connect/first_lease", FirstLease, {"space_id": space.pk})), None)
