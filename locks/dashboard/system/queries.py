"""How the installation is: one check for each part, with a plain verdict and what to do when it is not fine.

Everything comes from what /metrics tells (locks.system_state), so page and monitoring cannot disagree. Members see what
concerns their locks; hosts, sizes and versions are for superusers, whose machine it is.
"""

import platform
from importlib.metadata import version

import django
from django.conf import settings

from locks.dashboard.system import background_checks as background
from locks.dashboard.system import database_checks as storage
from locks.dashboard.system.health_checks import Check, Verdict, grade
from locks.models import Space
from locks.system_state.counters import Counters, LatestRun
from locks.system_state.database import DatabaseState


def for_members(now: Counters, *, space: Space, live_locks: int) -> list[Check]:
    return [
        background.sweep(now),
        background.background(now, with_names=False),
        background.queue(now),
        _room(space, live_locks),
        _kept(),
    ]


def for_superusers(
    now: Counters, database: DatabaseState, *, processes: int, streams: int, space: Space, live_locks: int
) -> list[Check]:
    return [
        background.sweep(now), background.background(now, with_names=True), background.queue(now),
        background.tasks(now), storage.database(database), storage.replication(database), storage.history(database),
        _serving(processes, streams), _room(space, live_locks),
    ]  # fmt: skip


def versions(database: DatabaseState) -> list[tuple[str, str]]:
    packages = ("Django", "djangorestframework", "celery", "uvicorn", "psycopg", "django-htmx")
    return [
        ("Octoadmin", str(settings.VERSION)), ("PostgreSQL", database.version), ("Python", platform.python_version()),
        *((name, django.get_version() if name == "Django" else version(name)) for name in packages),
    ]  # fmt: skip


def judged_runs(now: Counters) -> list[tuple[LatestRun, Verdict]]:
    """Every task's latest run, and what to think of it."""
    return [(run, background.of_run(run, now)) for run in now.runs]


def _serving(processes: int, streams: int) -> Check:
    return Check(
        key="serving",
        title="Server",
        verdict=Verdict.FINE,
        sentence=f"{processes} server process{'' if processes == 1 else 'es'} on this machine, {streams} open "
        f"page{'' if streams == 1 else 's'} being told of changes.",
    )


def _room(space: Space, live: int) -> Check:
    return Check(
        key="room",
        title="Room in this space",
        verdict=grade(live / space.max_live_locks, late=0.8, bad=1.0),
        sentence=f"{live:,} of {space.max_live_locks:,} locks that may be held at the same time.",
        advice="At the limit, claims are refused. Release what is stuck, or have an admin raise the space's limit.",
    )


def _kept() -> Check:
    return Check(
        key="kept",
        title="History",
        verdict=Verdict.FINE,
        sentence=f"Events are kept for {settings.RETENTION_DAYS} days, statistics for {settings.STATISTICS_DAYS}.",
    )
