"""Public counters from the database, asked at most once a second however often they are read."""

import dataclasses
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
from django.db import connection

from octoadmin.probes.latest import Latest
from octoadmin.serving.connection_checks import ask_database

FRESH_SECONDS = 1.0
PATIENCE_SECONDS = 2.0

# The sum of what acquire and the sweep keep for each space: counting the locks would cost more with each one.
_COUNT = """
    SELECT (SELECT coalesce(sum(live_locks), 0) FROM octo_space_usage),
           (SELECT count(*) FROM octo_space WHERE archived_at IS NULL),
           ARRAY(SELECT name FROM octo_heartbeat ORDER BY name),
           ARRAY(SELECT seen_at FROM octo_heartbeat ORDER BY name),
           (SELECT greatest(0, extract(epoch FROM clock_timestamp() - min(next_sweep_at))) FROM octo_lock
            WHERE lease_id IS NOT NULL),
           (SELECT json_agg(run ORDER BY name) FROM octo_task_run AS run),
           clock_timestamp()
"""


@dataclass(frozen=True, kw_only=True)
class LatestRun:
    """Of a background task."""

    name: str
    finished_at: datetime
    duration_ms: int
    queued_ms: int | None
    outcome: str
    failed: bool


@dataclass(frozen=True, kw_only=True)
class Counters:
    live_locks: int
    spaces: int
    heartbeats: dict[str, datetime]
    # How long the lease that the sweep is to look at first has been waiting for that.
    sweep_lag_seconds: float
    runs: list[LatestRun]
    server_time: datetime


def _count() -> Counters:
    ask_database(seconds=PATIENCE_SECONDS)
    with connection.cursor() as cursor:
        cursor.execute(_COUNT)
        live_locks, spaces, names, seen, sweep_lag, runs, server_time = cursor.fetchone()
    return Counters(
        live_locks=int(live_locks),
        spaces=spaces,
        heartbeats=dict(zip(names, seen, strict=True)),
        sweep_lag_seconds=float(sweep_lag or 0),
        runs=msgspec.convert(runs or [], list[LatestRun]),
        server_time=server_time,
    )


latest = Latest(_count, seconds=FRESH_SECONDS)


def counters() -> Counters:
    """Raises OperationalError. The server's time goes on between two questions."""
    answer, age = latest()
    return dataclasses.replace(answer, server_time=answer.server_time + timedelta(seconds=age))
