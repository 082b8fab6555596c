"""What the database says of itself: its size, its connections, its replicas and the months of the history."""

from dataclasses import dataclass
from datetime import date

from django.db import connection

from octoadmin.probes.counters import PATIENCE_SECONDS
from octoadmin.probes.latest import Latest
from octoadmin.serving.connection_checks import ask_database

# It costs more than the counters, and changes more slowly.
FRESH_SECONDS = 5.0

_ASK = """
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
    most_connections: int
    is_replica: bool
    replicas: int
    replica_lag_seconds: float
    # How long the transaction that is open longest has been so: nothing after it is cleaned up or counted.
    oldest_transaction_seconds: float
    first_month: date | None
    # How many months beyond this one have their partition; below 0 when even this month has none.
    months_ahead: int
    history_bytes: int
    # Events that found no partition of their month.
    has_strays: bool
    statistics_bytes: int
    locks_bytes: int


def _ask() -> DatabaseState:
    ask_database(seconds=PATIENCE_SECONDS)
    with connection.cursor() as cursor:
        cursor.execute(_ASK)
        values = cursor.fetchone()
    return DatabaseState(**dict(zip(DatabaseState.__dataclass_fields__, values, strict=True)))


latest = Latest(_ask, seconds=FRESH_SECONDS)


def database_state() -> DatabaseState:
    """Raises OperationalError."""
    return latest()[0]
