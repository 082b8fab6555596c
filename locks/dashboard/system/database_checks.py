"""Checks of the database: connections and size, replication, and the partitions of the history."""

from django.conf import settings
from django.template.defaultfilters import filesizeformat

from locks.dashboard.durations import humanize_ms
from locks.dashboard.system.health_checks import Check
from locks.system_state.database import DatabaseState
from locks.system_state.health import Health, grade, worst

CONNECTIONS_WARNING, CONNECTIONS_CRITICAL = 0.8, 0.95
TRANSACTION_WARNING, TRANSACTION_CRITICAL = 60.0, 900.0
REPLICA_WARNING = 10.0


def database(state: DatabaseState) -> Check:
    share = state.connections / state.max_connections
    transaction_seconds = state.oldest_transaction_seconds
    return Check(
        key="database",
        title="Database",
        health=worst(
            [
                grade(share, warning=CONNECTIONS_WARNING, critical=CONNECTIONS_CRITICAL),
                grade(transaction_seconds, warning=TRANSACTION_WARNING, critical=TRANSACTION_CRITICAL),
            ]
        ),
        text=f"PostgreSQL {state.version.split()[0]} uses {filesizeformat(state.bytes)}; {state.connections} of "
        f"{state.max_connections} connections are in use.",
        advice="Too many connections: raise max_connections, or lower OCTO_THREADS and OCTO_WORKERS. A long "
        "transaction keeps dead rows and delays statistics: find it in pg_stat_activity and end it.",
        facts=[
            ("Size", filesizeformat(state.bytes)),
            ("Locks", filesizeformat(state.locks_bytes)),
            ("History", filesizeformat(state.history_bytes)),
            ("Statistics", filesizeformat(state.statistics_bytes)),
            ("Oldest open transaction", humanize_ms(transaction_seconds * 1000)),
        ],
    )


def replication(state: DatabaseState) -> Check:
    if state.is_replica:
        health = Health.ACTION_REQUIRED
        text = "The server is connected to a replica, which is read-only."
        advice = "Point DATABASE_URL at the primary, or name all hosts with target_session_attrs=read-write."
    elif not state.replicas:
        health, text, advice = Health.HEALTHY, "No replica. If this machine is lost, only backups remain.", ""
    else:
        health = grade(state.replica_lag_seconds, warning=REPLICA_WARNING, critical=float("inf"))
        text = (
            f"{state.replicas} replica{'s' if state.replicas > 1 else ''}, at most "
            f"{humanize_ms(state.replica_lag_seconds * 1000)} behind."
        )
        advice = "A failover to a lagging replica loses the latest leases; fencing tokens still only rise."
    return Check(key="replication", title="Replication", health=health, text=text, advice=advice)


def history(state: DatabaseState) -> Check:
    ahead = state.months_ahead
    if ahead < 0:
        health = Health.ACTION_REQUIRED
    else:
        health = Health.WARNING if ahead < 1 or state.default_partition_in_use else Health.HEALTHY
    first = f"Partitions from {state.first_month:%B %Y}" if state.first_month else "No partitions"
    return Check(
        key="history",
        title="History",
        health=health,
        text=f"{first}, {max(ahead, 0)} month{'' if ahead == 1 else 's'} ahead. Months older than "
        f"{settings.RETENTION_DAYS} days are dropped.",
        advice="The retention task creates partitions every hour: see its latest run. Events without a partition are "
        "in the default partition and move when theirs is created.",
        facts=[
            ("Size", filesizeformat(state.history_bytes)),
            ("Statistics are kept", f"{settings.STATISTICS_DAYS} days"),
        ],
    )
