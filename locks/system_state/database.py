"""The database itself: its size, connections, replicas, and the monthly partitions of the history."""

from dataclasses import dataclass
from datetime import date

from django.db import connection

from locks.system_state.counters import ANSWER_TIMEOUT
from locks.system_state.db_health import check_connection
from locks.system_state.ttl_cache import TTLCache

# Costs more than the counters, and changes more slowly.
FRESH_SECONDS = 5.0

_QUERY = """
    SELECT
        current_setting('server_version'),
        pg_database_size(current_database()),
        (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
        current_setting('max_connections')::int,
        pg_is_in_recovery(),
        (SELECT count(*) FROM pg_stat_replication),
        (SELECT coalesce(extract(epoch FROM max(replay_lag)), 0)::float FROM pg_stat_replication),
        (SELECT coalesce(extract(epoch FROM max(statement_timestamp() - xact_start)), 0)::float
         FROM pg_stat_activity WHERE datname = current_database()),
        history.first_month,
        history.months_ahead,
        history.bytes,
        EXISTS (SELECT FROM octo_event_default),
        (SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
         WHERE relname IN ('octo_stats_minute', 'octo_stats_histogram', 'octo_stats_contention')),
        pg_total_relation_size('octo_lock')
    FROM (
        SELECT
            min(month) AS first_month,
            coalesce(
                extract(year FROM age(max(month), date_trunc('month', now(), 'UTC')::date)) * 12
                + extract(month FROM age(max(month), date_trunc('month', now(), 'UTC')::date)), -1
            )::int AS months_ahead,
            coalesce(sum(pg_total_relation_size(oid)), 0)::bigint AS bytes
        FROM (
            SELECT partition.oid, to_date(right(partition.relname, 7), 'YYYY_MM') AS month
            FROM pg_inherits
            JOIN pg_class AS partition ON partition.oid = pg_inherits.inhrelid
            WHERE inhparent = 'octo_event'::regclass AND partition.relname ~ '_[0-9]{4}_[0-9]{2}$'
        ) AS partition
    ) AS history
"""


@dataclass(frozen=True, kw_only=True)
class DatabaseState:
    version: str
    bytes: int
    connections: int
    max_connections: int
    is_replica: bool
    replicas: int
    replica_lag_seconds: float
    # Age of the oldest open transaction: vacuum and the rollup stop at it.
    oldest_transaction_seconds: float
    first_month: date | None
    # Months after this one that have a partition; below 0 when this month has none.
    months_ahead: int
    history_bytes: int
    # Some events had no partition of their month.
    default_partition_in_use: bool
    statistics_bytes: int
    locks_bytes: int


def _fetch() -> DatabaseState:
    check_connection(seconds=ANSWER_TIMEOUT)
    with connection.cursor() as cursor:
        cursor.execute(_QUERY)
        values = cursor.fetchone()
    return DatabaseState(**dict(zip(DatabaseState.__dataclass_fields__, values, strict=True)))


latest = TTLCache(_fetch, seconds=FRESH_SECONDS)


def database_state() -> DatabaseState:
    """Raises OperationalError."""
    return latest()[0]
