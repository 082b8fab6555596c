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
# A worker sends a heartbeat every five seconds.
MAX_WORKER_SILENCE = timedelta(seconds=20)

# The sums over all statistics cost more, and change slowly in relation.
TOTALS_FRESH_SECONDS = 60.0

# Sums the counts that acquire and the sweep keep for each space; counting the locks themselves would grow with them.
_QUERY = """
    SELECT (SELECT coalesce(sum(live_locks), 0) FROM octo_space_usage),
           (SELECT count(*) FROM octo_space WHERE archived_at IS NULL),
           ARRAY(SELECT name FROM octo_heartbeat ORDER BY name),
           ARRAY(SELECT seen_at FROM octo_heartbeat ORDER BY name),
           (SELECT greatest(0, extract(epoch FROM clock_timestamp() - min(next_sweep_at))) FROM octo_lock
            WHERE lease_id IS NOT NULL),
           (SELECT json_agg(run ORDER BY name) FROM octo_task_run AS run),
           (SELECT count(*) FROM octo_run WHERE finished_at IS NULL),
           (SELECT count(*) FROM octo_run_actor WHERE ended_at IS NULL),
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
    # Runs of agents that have not finished, and their actors.
    unfinished_runs: int
    present_actors: int
    server_time: datetime

    @property
    def worker_is_alive(self) -> bool:
        seen = [at for name, at in self.heartbeats.items() if name.startswith("worker@")]
        return any(self.server_time - at < MAX_WORKER_SILENCE for at in seen)


def _fetch() -> Counters:
    check_connection(seconds=ANSWER_TIMEOUT)
    with connection.cursor() as cursor:
        cursor.execute(_QUERY)
        live_locks, spaces, names, seen, sweep_lag, runs, agent_runs, actors, server_time = cursor.fetchone()
    return Counters(
        live_locks=int(live_locks),
        spaces=spaces,
        heartbeats=dict(zip(names, seen, strict=True)),
        sweep_lag_seconds=float(sweep_lag or 0),
        runs=msgspec.convert(runs or [], list[LatestRun]),
        unfinished_runs=agent_runs,
        present_actors=actors,
        server_time=server_time,
    )


latest = TTLCache(_fetch, seconds=FRESH_SECONDS)


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Since the oldest statistics that are kept; `database_bytes` is the size of the database."""

    tokens: int
    acquired: int
    released: int
    database_bytes: int


def _fetch_totals() -> Totals:
    check_connection(seconds=ANSWER_TIMEOUT)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT (SELECT count(*) FROM octo_live_token_v2), coalesce(sum(acquired), 0)::bigint,
                   coalesce(sum(released), 0)::bigint, pg_database_size(current_database())
            FROM octo_stats_minute
            """
        )
        tokens, acquired, released, size = cursor.fetchone()
    return Totals(tokens=tokens, acquired=acquired, released=released, database_bytes=size)


latest_totals = TTLCache(_fetch_totals, seconds=TOTALS_FRESH_SECONDS)


def totals() -> Totals:
    """Raises OperationalError."""
    return latest_totals()[0]


def counters() -> Counters:
    """Raises OperationalError. The server time is advanced by the age of the cached value."""
    value, age = latest()
    return dataclasses.replace(value, server_time=value.server_time + timedelta(seconds=age))
