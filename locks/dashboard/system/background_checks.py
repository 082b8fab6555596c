"""Checks of what runs beside the server: the sweep, the worker, its queue and its tasks."""

from django.conf import settings

from locks.dashboard.durations import humanize, humanize_ms
from locks.dashboard.system.health_checks import Check, Verdict, grade
from locks.system_state.counters import Counters, LatestRun

# Turns of the timetable (settings.CELERY_BEAT_SCHEDULE) after which something is late, and then missing.
LATE_TURNS, MISSING_TURNS = 4, 12
SWEEP_LATE, SWEEP_BAD = 5.0, 30.0
QUEUE_LATE_MS, QUEUE_BAD_MS = 2_000, 15_000


def sweep(now: Counters) -> Check:
    lag = now.sweep_lag_seconds
    return Check(
        key="sweep",
        title="Sweep",
        verdict=grade(lag, late=SWEEP_LATE, bad=SWEEP_BAD),
        sentence=f"The sweep is {humanize_ms(lag * 1000)} behind.",
        advice="Leases run out on time all the same: the database's clock decides. Only the record of it is late, and "
        "waiters hear later. See whether the background worker runs, and its log in the data directory.",
        facts=[("Held now, in all spaces", f"{now.live_locks:,}")],
    )


def background(now: Counters, *, with_names: bool) -> Check:
    ages = {name: max(0.0, (now.server_time - seen).total_seconds()) for name, seen in now.heartbeats.items()}
    advice = (
        "Start it again: `make up` runs it beside the server, otherwise `python -m octoadmin.run.worker`. Locks work "
        "without it; statistics, notices and clean-up wait."
    )
    missing = [kind for kind in ("worker", "beat") if not any(name.startswith(f"{kind}@") for name in ages)]
    if missing:
        return Check(key="worker", title="Background worker", verdict=Verdict.BAD, advice=advice,
                     sentence=f"No {' and no '.join(missing)} has reported so far.")  # fmt: skip
    freshest = {
        kind: min(age for name, age in ages.items() if name.startswith(f"{kind}@")) for kind in ("worker", "beat")
    }
    oldest = max(freshest.values())
    return Check(
        key="worker",
        title="Background worker",
        verdict=grade(oldest, late=5.0 * LATE_TURNS, bad=5.0 * MISSING_TURNS),
        sentence=f"The worker reported {humanize(freshest['worker'])} ago, the timetable "
        f"{humanize(freshest['beat'])} ago.",
        advice=advice,
        facts=[(name, f"{humanize(age)} ago") for name, age in sorted(ages.items())] if with_names else [],
    )


def queue(now: Counters) -> Check:
    waits = {run.name: run.queued_ms for run in now.runs if run.queued_ms is not None}
    if not waits:
        return Check(key="queue", title="Queue", verdict=Verdict.WATCH, sentence="No task has run so far.",
                     advice="The first ones run seconds after the worker starts.")  # fmt: skip
    longest = max(waits.values())
    return Check(
        key="queue",
        title="Queue",
        verdict=grade(longest, late=QUEUE_LATE_MS, bad=QUEUE_BAD_MS),
        sentence=f"Tasks wait up to {humanize_ms(longest)} for a worker.",
        advice="The worker has more to do than it can: give the machine more room, or run another worker.",
    )


def tasks(now: Counters) -> Check:
    verdicts = {run.name: of_run(run, now) for run in now.runs}
    failed = [run.name for run in now.runs if run.failed]
    late = [name for name, verdict in verdicts.items() if verdict is not Verdict.FINE and name not in failed]
    if failed:
        return Check(key="tasks", title="Tasks", verdict=Verdict.BAD,
                     sentence=f"The latest run failed: {', '.join(failed)}.",
                     advice="The reason is in the worker's log. Each is tried again by the timetable.")  # fmt: skip
    if late:
        return Check(key="tasks", title="Tasks", verdict=Verdict.WATCH, sentence=f"Late: {', '.join(late)}.",
                     advice="See the worker above: what it does not get to, it does on its next run.")  # fmt: skip
    return Check(
        key="tasks", title="Tasks", verdict=Verdict.FINE, sentence="Every task ran in its turn and ended well."
    )


def of_run(run: LatestRun, now: Counters) -> Verdict:
    if run.failed:
        return Verdict.BAD
    every = settings.CELERY_BEAT_SCHEDULE.get(run.name, {}).get("schedule")
    if not isinstance(every, int | float):
        return Verdict.FINE
    age = (now.server_time - run.finished_at).total_seconds()
    return Verdict.FINE if age < max(30.0, every * LATE_TURNS) else Verdict.WATCH
