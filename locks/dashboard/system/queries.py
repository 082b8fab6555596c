"""The checks that the System page shows.

All values come from the module that serves /metrics, so that the page and monitoring agree. Members see what concerns
their locks; hosts, sizes and versions are for superusers.
"""

import platform
from importlib.metadata import version

import django
from django.conf import settings

from locks.dashboard.system import background_checks, database_checks
from locks.dashboard.system.health_checks import Check
from locks.models import SpaceUsage
from locks.system_state.counters import Counters, LatestRun
from locks.system_state.database import DatabaseState
from locks.system_state.health import Health, grade

CAPACITY_WARNING, CAPACITY_CRITICAL = 0.8, 1.0


def checks_for_members(counters: Counters, *, usage: SpaceUsage) -> list[Check]:
    return [
        background_checks.sweep(counters),
        background_checks.background(counters, with_names=False),
        background_checks.queue(counters),
        _capacity(usage),
        _retention(),
    ]


def checks_for_superusers(
    counters: Counters, database: DatabaseState, *, processes: int, streams: int, usage: SpaceUsage
) -> list[Check]:
    return [
        background_checks.sweep(counters),
        background_checks.background(counters, with_names=True),
        background_checks.queue(counters),
        background_checks.tasks(counters),
        database_checks.database(database),
        database_checks.replication(database),
        database_checks.history(database),
        _server(processes, streams),
        _capacity(usage),
    ]


def versions(database: DatabaseState) -> list[tuple[str, str]]:
    packages = ("djangorestframework", "celery", "uvicorn", "psycopg", "django-htmx")
    return [
        ("Octoadmin", str(settings.VERSION)),
        ("PostgreSQL", database.version),
        ("Python", platform.python_version()),
        ("Django", django.get_version()),
        *((name, version(name)) for name in packages),
    ]


def task_runs(counters: Counters) -> list[tuple[LatestRun, Health]]:
    """The latest run of each task."""
    return [(run, background_checks.task_health(run, counters)) for run in counters.runs]


def _server(processes: int, streams: int) -> Check:
    return Check(
        key="server",
        title="Server",
        health=Health.HEALTHY,
        text=f"{processes} server process{'' if processes == 1 else 'es'} on this machine, {streams} connected "
        f"dashboard page{'' if streams == 1 else 's'}.",
    )


def _capacity(usage: SpaceUsage) -> Check:
    space = usage.space
    fullest = max(
        usage.live_locks / space.max_live_locks, usage.names / space.max_names, usage.events / space.max_events
    )
    return Check(
        key="capacity",
        title="Capacity of this space",
        health=grade(fullest, warning=CAPACITY_WARNING, critical=CAPACITY_CRITICAL),
        text=f"{usage.live_locks:,} of {space.max_live_locks:,} locks held, {usage.names:,} of {space.max_names:,} "
        f"names, {usage.events:,} of {space.max_events:,} events.",
        advice="At a limit, claims are rejected. Release stuck locks, or let an admin raise the limit of the space.",
    )


def _retention() -> Check:
    return Check(
        key="retention",
        title="History",
        health=Health.HEALTHY,
        text=f"Events are kept for {settings.RETENTION_DAYS} days, statistics for {settings.STATISTICS_DAYS}.",
    )
