"""Metrics of requests. A request is counted when its response has ended, with its status and its whole time."""

from functools import lru_cache

from prometheus_client import Counter, Gauge, Histogram

from locks.metrics import REGISTRY

# Clients choose the method; an unknown one must not add a series.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_requests = Counter(
    "octoadmin_requests",
    "Requests answered. `kind`: batched (the fast path), django (a thread), waiting (an acquire in the queue), stream "
    "(server-sent events), mcp (tools of agents; what a tool asks of the API is counted as well); `status`: 2xx, 4xx "
    "and so on.",
    ("kind", "method", "status"),
    registry=REGISTRY,
)
_seconds = Histogram(
    "octoadmin_request_seconds",
    "Time from a request's arrival to the end of its response.",
    ("kind",),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    registry=REGISTRY,
)
requests_in_flight = Gauge(
    "octoadmin_requests_in_flight",
    "Requests that Django or the event loop answers now, streams and waiting ones included.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
requests_waiting = Gauge(
    "octoadmin_requests_waiting",
    "Requests that wait for a Django thread.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)


def count_request(*, kind: str, method: str, status: int, seconds: float) -> None:
    total, histogram = _series(kind, method if method in _METHODS else "OTHER", status // 100)
    total.inc()
    histogram.observe(seconds)


@lru_cache(maxsize=256)
def _series(kind: str, method: str, status_class: int) -> tuple[Counter, Histogram]:
    return _requests.labels(kind, method, f"{status_class}xx"), _seconds.labels(kind)
