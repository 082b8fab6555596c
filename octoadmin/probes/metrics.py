"""What the server counts about itself, for /metrics.

With several server processes the supervisor sets PROMETHEUS_MULTIPROC_DIR; then prometheus_client keeps the
numbers in files there and a scrape of any process sums up all of them.
"""

import os
from collections.abc import Iterable
from functools import lru_cache

from django.db import OperationalError
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from octoadmin.probes.counters import Counters, counters
from octoadmin.probes.database import DatabaseState, database_state

# A method is the client's to choose; an unknown one must not make a new series.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

disable_created_metrics()  # type: ignore[no-untyped-call]
REGISTRY = CollectorRegistry()
_requests = Counter("octoadmin_requests", "Requests answered.", ("lane", "method", "status"), registry=REGISTRY)
_seconds = Histogram(
    "octoadmin_request_seconds",
    "Time from a request's arrival to the end of its answer.",
    ("lane",),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    registry=REGISTRY,
)
requests_in_flight = Gauge(
    "octoadmin_requests_in_flight",
    "Requests being answered now.",
    ("lane",),
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
requests_waiting = Gauge(
    "octoadmin_requests_waiting",
    "Requests waiting for a thread of the sync lane.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)

live_streams = Gauge(
    "octoadmin_live_streams",
    "Pages that are being told of changes now.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
server_processes = Gauge(
    "octoadmin_server_processes",
    "Server processes on this machine.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)


def count_request(*, lane: str, method: str, status: int, seconds: float) -> None:
    total, histogram = _series(lane, method if method in _METHODS else "OTHER", status // 100)
    total.inc()
    histogram.observe(seconds)


@lru_cache(maxsize=256)
def _series(lane: str, method: str, status_class: int) -> tuple[Counter, Histogram]:
    return _requests.labels(lane, method, f"{status_class}xx"), _seconds.labels(lane)


class _DatabaseCollector(Collector):
    """What only the database knows, asked when somebody scrapes."""

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
            "How long the first lease that the sweep has to look at has been due.",
            value=now.sweep_lag_seconds,
        )
        yield from _of_tasks(now)
        try:
            yield from _of_database(database_state())
        except OperationalError:
            return


def _of_tasks(now: Counters) -> Iterable[Metric]:
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


def _of_database(state: DatabaseState) -> Iterable[Metric]:
    return (
        GaugeMetricFamily("octoadmin_database_bytes", "Size of the database.", value=state.bytes),
        GaugeMetricFamily("octoadmin_database_connections", "Connections to it.", value=state.connections),
        GaugeMetricFamily(
            "octoadmin_database_connections_most", "Connections it accepts.", value=state.most_connections
        ),
        GaugeMetricFamily("octoadmin_database_replicas", "Replicas that are connected.", value=state.replicas),
        GaugeMetricFamily(
            "octoadmin_database_oldest_transaction_seconds",
            "How long the transaction that is open longest has been so.",
            value=state.oldest_transaction_seconds,
        ),
        GaugeMetricFamily(
            "octoadmin_history_months_ahead",
            "Months after this one that have a partition of the history; below 0 when this one has none.",
            value=state.months_ahead,
        ),
        GaugeMetricFamily("octoadmin_history_bytes", "Size of the history.", value=state.history_bytes),
    )


def _of_processes() -> CollectorRegistry:
    """What the server processes of this machine have counted, together."""
    registry = CollectorRegistry()
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    else:
        registry.register(REGISTRY)
    return registry


def processes_and_streams() -> tuple[int, int]:
    registry = _of_processes()
    processes, streams = (
        registry.get_sample_value(name) for name in ("octoadmin_server_processes", "octoadmin_live_streams")
    )
    return int(processes or 0), int(streams or 0)


def exposition() -> bytes:
    """All of it in Prometheus' text format."""
    registry = _of_processes()
    registry.register(_DatabaseCollector())
    return generate_latest(registry)
