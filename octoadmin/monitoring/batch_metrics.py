"""Metrics of the batcher; its requests and their times are counted with all others."""

from prometheus_client import Counter, Gauge, Histogram

from locks.metrics import REGISTRY

batch_size = Histogram(
    "octoadmin_batch_size",
    "Requests in one batch statement.",
    ("operation",),
    buckets=(1, 2, 4, 8, 16, 32, 64, 128),
    registry=REGISTRY,
)
statement_seconds = Histogram(
    "octoadmin_batch_statement_seconds",
    "Time of one batch statement, including its commit.",
    ("operation",),
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
    registry=REGISTRY,
)
waiting = Gauge(
    "octoadmin_batch_waiting",
    "Requests that wait for the next batch statement.",
    ("operation",),
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
fallbacks = Counter(
    "octoadmin_batch_fallbacks",
    "Hot calls that fell back from the fast path to Django.",
    ("reason",),
    registry=REGISTRY,
)
