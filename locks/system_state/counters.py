"""Counters of the whole installation, queried at most once a second however often they are read."""

import dataclasses
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
from django.db import connection

from locks.system_state.db_health import check_connection
from locks.system_state.ttl_cache import TTLCache

FRESH_SECONDS = 1.0
ANSWER_TIMEOUT = 2.0

# Sums the counts that acquire and the sweep keep for each space; counting the locks themselves would grow with them.
_QUERY = """
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
    """The latest run of a background task."""

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
    # How long the lease that the sweep must process next has been due.
    sweep_lag_seconds: float
    runs: list[LatestRun]
    server_time: datetime


def _fetch() -> Counters:
    check_connection(seconds=ANSWER_TIMEOUT)
    with connection.cursor() as cursor:
        cursor.execute(_QUERY)
        live_locks, spaces, names, seen, sweep_lag, runs, server_time = cursor.fetchone()
    return Counters(
        live_locks=int(live_locks),
        spaces=spaces,
        heartbeats=dict(zip(names, seen, strict=True)),
        sweep_lag_seconds=float(sweep_lag or 0),
        runs=msgspec.convert(runs or [], list[LatestRun]),
        server_time=server_time,
    )


latest = TTLCache(_fetch, seconds=FRESH_SECONDS)


def counters() -> Counters:
    """Raises OperationalError. The server time is advanced by the age of the cached value."""
    value, age = latest()
    return dataclasses.replace(value, server_time=value.server_time + timedelta(seconds=age))
