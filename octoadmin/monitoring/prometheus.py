"""/metrics: what the server processes have counted, and what the database knows."""

from collections.abc import Iterable

from django.db import OperationalError
from prometheus_client import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

# Both declare metrics, which are then listed from the start.
import octoadmin.monitoring.batch_metrics
import octoadmin.monitoring.request_metrics  # noqa: F401
from locks.metrics import all_processes
from locks.system_state.counters import Counters, counters
from locks.system_state.database import DatabaseState, database_state


class DatabaseCollector(Collector):
    """What only the database knows, queried at each scrape."""

    def collect(self) -> Iterable[Metric]:
        try:
            now = counters()
        except OperationalError:
            now = None
        yield _database_up(value=now is not None)
        if now is None:
            return
        yield from _counter_metrics(now)
        yield from _task_metrics(now)
        try:
            yield from _database_metrics(database_state())
        except OperationalError:
            return

    def describe(self) -> Iterable[Metric]:
        """The same metrics without values, for which no database is needed."""
        yield _database_up(value=None)
        yield from _counter_metrics(None)
        yield from _task_metrics(None)
        yield from _database_metrics(None)


def _database_up(*, value: bool | None) -> Metric:
    return GaugeMetricFamily("octoadmin_database_up", "Whether the database answers.", value=value)


def _counter_metrics(now: Counters | None) -> Iterable[Metric]:
    ages = GaugeMetricFamily(
        "octoadmin_heartbeat_age_seconds", "Time since a background process was seen.", labels=("name",)
    )
    if now is not None:
        for name, seen_at in now.heartbeats.items():
            ages.add_metric((name,), max(0.0, (now.server_time - seen_at).total_seconds()))
    return (
        GaugeMetricFamily(
            "octoadmin_live_locks", "Locks held now, in all spaces.", value=now.live_locks if now else None
        ),
        GaugeMetricFamily("octoadmin_spaces", "Spaces that are not archived.", value=now.spaces if now else None),
        GaugeMetricFamily("octoadmin_runs", "Runs that have not finished.", value=now.unfinished_runs if now else None),
        GaugeMetricFamily(
            "octoadmin_run_actors", "Actors of runs that have not ended.", value=now.present_actors if now else None
        ),
        ages,
        GaugeMetricFamily(
            "octoadmin_sweep_lag_seconds",
            "How long the lease that the sweep must process next has been due.",
            value=now.sweep_lag_seconds if now else None,
        ),
    )


def _task_metrics(now: Counters | None) -> Iterable[Metric]:
    """The latest run of each background task."""
    age = GaugeMetricFamily("octoadmin_task_age_seconds", "Time since a task last ended.", labels=("task",))
    took = GaugeMetricFamily("octoadmin_task_seconds", "How long a task's latest run took.", labels=("task",))
    queued = GaugeMetricFamily(
        "octoadmin_task_queue_seconds", "How long a task's latest run was in the queue.", labels=("task",)
    )
    failed = GaugeMetricFamily("octoadmin_task_failed", "Whether a task's latest run failed.", labels=("task",))
    if now is not None:
        for run in now.runs:
            age.add_metric((run.name,), max(0.0, (now.server_time - run.finished_at).total_seconds()))
            took.add_metric((run.name,), run.duration_ms / 1000)
            failed.add_metric((run.name,), run.failed)
            if run.queued_ms is not None:
                queued.add_metric((run.name,), run.queued_ms / 1000)
    return age, took, queued, failed


def _database_metrics(state: DatabaseState | None) -> Iterable[Metric]:
    return (
        GaugeMetricFamily("octoadmin_database_bytes", "Size of the database.", value=state.bytes if state else None),
        GaugeMetricFamily(
            "octoadmin_database_connections", "Connections to it.", value=state.connections if state else None
        ),
        GaugeMetricFamily(
            "octoadmin_database_max_connections",
            "Connections it accepts.",
            value=state.max_connections if state else None,
        ),
        GaugeMetricFamily(
            "octoadmin_database_replicas", "Replicas that are connected.", value=state.replicas if state else None
        ),
        GaugeMetricFamily(
            "octoadmin_database_oldest_transaction_seconds",
            "Age of the oldest open transaction.",
            value=state.oldest_transaction_seconds if state else None,
        ),
        GaugeMetricFamily(
            "octoadmin_history_months_ahead",
            "Months after this one that have a partition of the history; below 0 when this one has none.",
            value=state.months_ahead if state else None,
        ),
        GaugeMetricFamily(
            "octoadmin_history_bytes", "Size of the history.", value=state.history_bytes if state else None
        ),
    )


def render_metrics() -> bytes:
    """In Prometheus' text format."""
    registry = all_processes()
    registry.register(DatabaseCollector())
    return generate_latest(registry)
