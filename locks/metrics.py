"""What the server processes count about themselves; /metrics and the System page read it.

With several server processes PROMETHEUS_MULTIPROC_DIR is set: prometheus_client then keeps the numbers in files there,
and a scrape of any process sums up all of them.
"""

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.multiprocess import MultiProcessCollector

disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus_client leaves it without types
REGISTRY = CollectorRegistry()
live_streams = Gauge(
    "octoadmin_live_streams",
    "Dashboard pages that follow changes now.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
election_streams = Gauge(
    "octoadmin_election_streams",
    "Streams of elections that are open now.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
campaigns = Counter(
    "octoadmin_campaigns",
    "Campaigns in elections. `result`: leader, follower, refused.",
    ("result",),
    registry=REGISTRY,
)
store_waiting = Gauge(
    "octoadmin_store_waiting_requests",
    "Requests that wait until an entry of a run's store is written.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
server_processes = Gauge(
    "octoadmin_server_processes",
    "Server processes on this machine.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)


def all_processes() -> CollectorRegistry:
    """What the server processes of this machine have counted, together."""
    registry = CollectorRegistry()
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # prometheus_client leaves it without types
    else:
        registry.register(REGISTRY)
    return registry


def processes_and_streams() -> tuple[int, int]:
    registry = all_processes()
    processes, streams = (
        registry.get_sample_value(name) for name in ("octoadmin_server_processes", "octoadmin_live_streams")
    )
    return int(processes or 0), int(streams or 0)
