"""/metrics: what the server processes have counted, and what the database knows."""

from collections.abc import Iterable

from django.db import OperationalError
from prometheus_client import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from locks.metrics import all_processes
from locks.system_state.counters import Counters, counters
from locks.system_state.database import DatabaseState, database_state


class _DatabaseCollector(Collector):
    """What only the database knows, queried at each scrape."""

    def collect(self) -> Iterable[Metric]:
        try:
            now = counters()
        except OperationalError:
            now = None
        yield GaugeMetricFamily("octoadmin_database_up", "Whether the database answers.", value=now is not None)
        if now is None:
            return
        yield GaugeMetricFamily("octoadmin_live_locks", "Locks held now, in all spaces.", value=now.live_locks)
        yield GaugeMetricFamily("octoadmin_spaces", "Spaces that are not archived.", value=now.spaces)
        ages = GaugeMetricFamily(
            "octoadmin_heartbeat_age_seconds", "Time since a background process was seen.", labels=("name",)
        )
        for name, seen_at in now.heartbeats.items():
            ages.add_metric((name,), max(0.0, (now.server_time - seen_at).total_seconds()))
        yield ages
        yield GaugeMetricFamily(
            "octoadmin_sweep_lag_seconds",
            "How long the lease that the sweep must process next has been due.",
            value=now.sweep_lag_seconds,
        )
        yield from _task_metrics(now)
        try:
            yield from _database_metrics(database_state())
        except OperationalError:
            return


def _task_metrics(now: Counters) -> Iterable[Metric]:
    """The latest run of each background task."""
    age = GaugeMetricFamily("octoadmin_task_age_seconds", "Time since a task last ended.", labels=("task",))
    took = GaugeMetricFamily("octoadmin_task_seconds", "How long a task's latest run took.", labels=("task",))
    queued = GaugeMetricFamily(
        "octoadmin_task_queue_seconds", "How long a task's latest run was in the queue.", labels=("task",)
    )
    failed = GaugeMetricFamily("octoadmin_task_failed", "Whether a task's latest run failed.", labels=("task",))
    for run in now.runs:
        age.add_metric((run.name,), max(0.0, (now.server_time - run.finished_at).total_seconds()))
        took.add_metric((run.name,), run.duration_ms / 1000)
        failed.add_metric((run.name,), run.failed)
        if run.queued_ms is not None:
            queued.add_metric((run.name,), run.queued_ms / 1000)
    return age, took, queued, failed


def _database_metrics(state: DatabaseState) -> Iterable[Metric]:
    return (
        GaugeMetricFamily("octoadmin_database_bytes", "Size of the database.", value=state.bytes),
        GaugeMetricFamily("octoadmin_database_connections", "Connections to it.", value=state.connections),
        GaugeMetricFamily("octoadmin_database_max_connections", "Connections it accepts.", value=state.max_connections),
        GaugeMetricFamily("octoadmin_database_replicas", "Replicas that are connected.", value=state.replicas),
        GaugeMetricFamily(
            "octoadmin_database_oldest_transaction_seconds",
            "Age of the oldest open transaction.",
            value=state.oldest_transaction_seconds,
        ),
        GaugeMetricFamily(
            "octoadmin_history_months_ahead",
            "Months after this one that have a partition of the history; below 0 when this one has none.",
            value=state.months_ahead,
        ),
        GaugeMetricFamily("octoadmin_history_bytes", "Size of the history.", value=state.history_bytes),
    )


def render_metrics() -> bytes:
    """In Prometheus' text format."""
    registry = all_processes()
    registry.register(_DatabaseCollector())
    return generate_latest(registry)
