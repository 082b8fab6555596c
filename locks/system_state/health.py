"""How a part of the system is, and what decides it for the parts that run in the background."""

from collections.abc import Callable
from enum import StrEnum

from locks.system_state.counters import Counters

# Periods of the schedule (settings.CELERY_BEAT_SCHEDULE) after which a heartbeat or task is late, and then missing.
LATE_PERIODS, MISSING_PERIODS = 4, 12
HEARTBEAT_SECONDS = 5.0
SWEEP_WARNING, SWEEP_CRITICAL = 5.0, 30.0
QUEUE_WARNING_MS, QUEUE_CRITICAL_MS = 2_000, 15_000


class Health(StrEnum):
    HEALTHY = "healthy"
    WARNING = "warning"
    ACTION_REQUIRED = "action-required"

    @property
    def label(self) -> str:
        return self.value.replace("-", " ").capitalize()

    @property
    def icon(self) -> str:
        return {"healthy": "check", "warning": "expiring", "action-required": "overdue"}[self.value]


def worst(healths: list[Health]) -> Health:
    return max(healths, key=list(Health).index)


def grade(value: float, *, warning: float, critical: float) -> Health:
    if value < warning:
        return Health.HEALTHY
    return Health.WARNING if value < critical else Health.ACTION_REQUIRED


def sweep_health(counters: Counters) -> Health:
    return grade(counters.sweep_lag_seconds, warning=SWEEP_WARNING, critical=SWEEP_CRITICAL)


def heartbeat_ages(counters: Counters) -> dict[str, float]:
    """How long ago the last heartbeat of a worker and of a scheduler was; without those that have had none."""
    ages: dict[str, float] = {}
    for name, seen_at in counters.heartbeats.items():
        kind = "worker" if name.startswith("worker@") else "scheduler"
        age = max(0.0, (counters.server_time - seen_at).total_seconds())
        ages[kind] = min(age, ages.get(kind, age))
    return ages


def background_health(counters: Counters) -> Health:
    ages = heartbeat_ages(counters)
    if len(ages) < 2:
        return Health.ACTION_REQUIRED
    return grade(
        max(ages.values()), warning=HEARTBEAT_SECONDS * LATE_PERIODS, critical=HEARTBEAT_SECONDS * MISSING_PERIODS
    )


def queue_health(counters: Counters) -> Health:
    waits = [run.queued_ms for run in counters.runs if run.queued_ms is not None]
    if not waits:
        return Health.WARNING
    return grade(max(waits), warning=QUEUE_WARNING_MS, critical=QUEUE_CRITICAL_MS)


# By the keys of the checks on the System page: what decides, and what an alert says.
_BACKGROUND: dict[str, tuple[Callable[[Counters], Health], str]] = {
    "sweep": (sweep_health, "The sweep is late: expirations and handovers to waiters are delayed."),
    "worker": (background_health, "The background worker or its scheduler is silent."),
    "queue": (queue_health, "Background tasks wait long for a worker."),
}


def unhealthy_parts(counters: Counters) -> dict[str, str]:
    """The parts of the background that need action, each with a sentence."""
    return {
        key: sentence for key, (health, sentence) in _BACKGROUND.items() if health(counters) is Health.ACTION_REQUIRED
    }
