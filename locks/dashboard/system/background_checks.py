"""Checks of the background: the sweep, the worker and scheduler, the task queue and the tasks."""

from django.conf import settings

from locks.dashboard.durations import humanize, humanize_ms
from locks.dashboard.system.health_checks import Check
from locks.system_state.counters import Counters, LatestRun
from locks.system_state.health import (
    LATE_PERIODS,
    Health,
    background_health,
    heartbeat_ages,
    queue_health,
    sweep_health,
)

MIN_LATE_SECONDS = 30.0


def sweep(counters: Counters) -> Check:
    lag = counters.sweep_lag_seconds
    return Check(
        key="sweep",
        title="Sweep",
        health=sweep_health(counters),
        text=f"The sweep is {humanize_ms(lag * 1000)} behind.",
        advice="Leases still expire on time, by the clock of the database. Only the expired events and the handover to "
        "waiters are late. Check that the background worker runs, and its log in the data directory.",
        facts=[("Held locks, all spaces", f"{counters.live_locks:,}")],
    )


def background(counters: Counters, *, with_names: bool) -> Check:
    ages = {
        name: max(0.0, (counters.server_time - heartbeat).total_seconds())
        for name, heartbeat in counters.heartbeats.items()
    }
    latest = heartbeat_ages(counters)
    missing = [kind for kind in ("worker", "scheduler") if kind not in latest]
    if missing:
        text = f"No heartbeat yet of the {' and the '.join(missing)}."
    else:
        worker, scheduler = humanize(latest["worker"]), humanize(latest["scheduler"])
        text = f"Last heartbeat of the worker {worker} ago, of the scheduler {scheduler} ago."
    return Check(
        key="worker",
        title="Background worker",
        health=background_health(counters),
        text=text,
        advice="Start it again: `make up` runs it beside the server, otherwise `python -m octoadmin.run.worker`. Locks "
        "work without it; statistics, webhooks and clean-up wait.",
        facts=[(name, f"{humanize(age)} ago") for name, age in sorted(ages.items())] if with_names else [],
    )


def queue(counters: Counters) -> Check:
    waits = [run.queued_ms for run in counters.runs if run.queued_ms is not None]
    max_wait = max(waits, default=0)
    return Check(
        key="queue",
        title="Task queue",
        health=queue_health(counters),
        text=f"Tasks wait up to {humanize_ms(max_wait)} for a worker." if waits else "No task has run yet.",
        advice="The worker is overloaded: give the machine more CPU, or run another worker."
        if waits
        else "The first tasks run seconds after the worker starts.",
    )


def tasks(counters: Counters) -> Check:
    failed = [run.name for run in counters.runs if run.failed]
    late = [run.name for run in counters.runs if task_health(run, counters) is Health.WARNING]
    if failed:
        health, text = Health.ACTION_REQUIRED, f"The latest run failed: {', '.join(failed)}."
        advice = "The reason is in the log of the worker. The scheduler runs each task again."
    elif late:
        health, text = Health.WARNING, f"Late: {', '.join(late)}."
        advice = "Check the background worker. A task that is late does all the work on its next run."
    else:
        health, text, advice = Health.HEALTHY, "All tasks ran on schedule and succeeded.", ""
    return Check(key="tasks", title="Tasks", health=health, text=text, advice=advice)


def task_health(run: LatestRun, counters: Counters) -> Health:
    if run.failed:
        return Health.ACTION_REQUIRED
    period = settings.CELERY_BEAT_SCHEDULE.get(run.name, {}).get("schedule")
    if not isinstance(period, int | float):
        return Health.HEALTHY
    age = (counters.server_time - run.finished_at).total_seconds()
    return Health.HEALTHY if age < max(MIN_LATE_SECONDS, period * LATE_PERIODS) else Health.WARNING
