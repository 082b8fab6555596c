"""What the fast lane counts about itself, for /metrics; its requests and their times are counted with all others."""

from prometheus_client import Counter, Gauge, Histogram

from octoadmin.fast_lane.reading import Reason
from octoadmin.probes.metrics import REGISTRY

batch_size = Histogram(
    "octoadmin_lane_batch_size",
    "Requests that went into one statement of the fast lane.",
    ("operation",),
    buckets=(1, 2, 4, 8, 16, 32, 64, 128),
    registry=REGISTRY,
)
statement_seconds = Histogram(
    "octoadmin_lane_statement_seconds",
    "Time of one statement of the fast lane, its commit included.",
    ("operation",),
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
    registry=REGISTRY,
)
waiting = Gauge(
    "octoadmin_lane_waiting",
    "Requests of the fast lane waiting for their turn.",
    ("operation",),
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
_left = Counter(
    "octoadmin_lane_left_to_sync", "Requests that the fast lane left to the sync lane.", ("reason",), registry=REGISTRY
)
left_to_sync = {reason: _left.labels(reason.value) for reason in Reason}
