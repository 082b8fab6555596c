"""Checks of the database: its room, its replicas and the months of the history."""

from django.conf import settings
from django.template.defaultfilters import filesizeformat

from locks.dashboard.durations import humanize_ms
from locks.dashboard.system.health_checks import Check, Verdict, grade
from locks.system_state.database import DatabaseState

LONG_TRANSACTION, VERY_LONG_TRANSACTION = 60.0, 900.0
REPLICA_LATE = 10.0


def database(state: DatabaseState) -> Check:
    share = state.connections / state.max_connections
    verdict = max(
        (grade(share, late=0.8, bad=0.95),
         grade(state.oldest_transaction_seconds, late=LONG_TRANSACTION, bad=VERY_LONG_TRANSACTION)),
        key=list(Verdict).index,
    )  # fmt: skip
    return Check(
        key="database",
        title="Database",
        verdict=verdict,
        sentence=f"PostgreSQL {state.version.split()[0]} answers; {state.connections} of {state.max_connections} "
        f"connections are in use, and it has {filesizeformat(state.bytes)}.",
        advice="Near the limit of connections: raise max_connections, or lower OCTO_THREADS and OCTO_WORKERS. A "
        "transaction that stays open keeps old rows and late statistics: find it in pg_stat_activity and end it.",
        facts=[
            ("Size", filesizeformat(state.bytes)),
            ("of it locks", filesizeformat(state.locks_bytes)),
            ("of it history", filesizeformat(state.history_bytes)),
            ("of it statistics", filesizeformat(state.statistics_bytes)),
            ("Oldest open transaction", humanize_ms(state.oldest_transaction_seconds * 1000)),
        ],
    )


def replication(state: DatabaseState) -> Check:
    if state.is_replica:
        return Check(key="replication", title="Replication", verdict=Verdict.BAD,
                     sentence="The server is connected to a replica, which takes no changes.",
                     advice="Point DATABASE_URL at the primary, or name all hosts with target_session_attrs=read-write."
                     )  # fmt: skip
    if not state.replicas:
        return Check(key="replication", title="Replication", verdict=Verdict.FINE,
                     sentence="There is no replica: what is lost with this machine is lost, unless there are backups."
                     )  # fmt: skip
    return Check(
        key="replication",
        title="Replication",
        verdict=grade(state.replica_lag_seconds, late=REPLICA_LATE, bad=float("inf")),
        sentence=f"{state.replicas} replica{'s' if state.replicas > 1 else ''}, at most "
        f"{humanize_ms(state.replica_lag_seconds * 1000)} behind.",
        advice="After a failover to a replica that lags, the last leases are unknown; fencing tokens still only rise.",
    )


def history(state: DatabaseState) -> Check:
    ahead = state.months_ahead
    verdict = (
        Verdict.BAD if ahead < 0 else Verdict.WATCH if ahead < 1 or state.default_partition_in_use else Verdict.FINE
    )
    first = f"{state.first_month:%B %Y}" if state.first_month else "nowhere"
    return Check(
        key="history",
        title="History",
        verdict=verdict,
        sentence=f"Partitions reach from {first} to {max(ahead, 0)} month{'' if ahead == 1 else 's'} ahead; months "
        f"older than {settings.RETENTION_DAYS} days are dropped.",
        advice="The retention task makes them every hour: see its latest run. Events without a partition are kept in "
        "the default one and moved when theirs is made.",
        facts=[
            ("Size", filesizeformat(state.history_bytes)),
            ("Statistics are kept", f"{settings.STATISTICS_DAYS} days"),
        ],
    )
