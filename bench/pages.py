"""`python -m bench pages`: the cost of each page with 100,000 held locks and a million events.

Times are those of Django's whole response (middleware, view, queries, template) without the network; the database
itself reports how long the slowest query of each page takes.
"""

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from django.test import Client

from bench.setup import FILL_LOCKS, Environment
from locks.models import Token, User
from octoadmin.probes.counters import latest as latest_counters
from octoadmin.probes.database import latest as latest_state

LOCKS = 100_000
EVENTS = 1_000_000
ROUNDS = 15

# All locks have the same prefix: the largest possible group.
PAGES = {
    "Now": "",
    "Now, last page": "?page=200",
    "Now, searched": "?q=held/00777",
    "Now, searched without a match": "?q=zebra",
    "Now, searched without a match, Cyrillic": "?q=%D0%B7%D0%B5%D0%B1%D1%80%D0%B0",
    "Now, of one owner": "?owner=runner-77",
    "Now, held longest": "?sort=oldest",
    "Now, by owner": "?group=owner",
    "Now, by prefix": "?group=prefix",
    "Owners": "owners",
    "Owners, last page": "owners?page=11",
    "Owners, searched": "owners?q=runner-77",
    "Stuck": "stuck",
    "Lock": "locks/held/0000777",
    "Lock, 7 days": "locks/busy?span=7d",
    "Force-release": "locks/held/0000777/force-release",
    "Contention, 24 h": "contention",
    "Contention, 7 d": "contention?span=7d",
    "Activity": "activity",
    "Activity, one lock": "activity?lock=busy",
    "Activity, one kind": "activity?kind=force_released",
    "Activity, one actor": "activity?actor=olga",
    "Tokens": "tokens",
    "Team": "team",
    "Connect": "connect",
    "System": "system",
}
# After an incident: ten thousand leases are held far longer than usual, and a thousand have expired without a sweep.
PAGES_AFTER_INCIDENT = {
    "Now": "",
    "Now, by owner": "?group=owner",
    "Stuck": "stuck",
    "Stuck, last page": "stuck?page=200",
}

FILL = """
-- One lock in ten is bound to a session, twenty to each.
INSERT INTO octo_session (id, space_id, token_id, owner, ttl_seconds, last_keepalive_at, expires_at, next_sweep_at)
SELECT md5(n::text)::uuid, %(space)s, %(token)s, 'runner-' || n %% 500, 300, now(), now() + interval '1 day', now()
FROM generate_series(1, {locks} / 200) AS n;
UPDATE octo_lock SET session_id = session, bound_session_id = session
FROM (SELECT id, md5((fencing_token / 200 + 1)::text)::uuid AS session FROM octo_lock) AS bound
WHERE bound.id = octo_lock.id AND fencing_token %% 10 = 0 AND fencing_token / 200 < {locks} / 200;

SELECT octo_event_partition((now() - step * interval '1 month')::date) FROM generate_series(0, 2) AS step;

-- Over 30 days: the starts and the ends of holds. One event in fifty belongs to one busy lock.
INSERT INTO octo_event (at, kind, team_id, space_id, lock_name, fencing_token, owner, holder_id, metadata, token_id,
                        actor_kind, actor_name, channel, reason, held_ms)
SELECT now() - ({events} - n) * interval '30 days' / {events},
       CASE WHEN n %% 2 = 0 THEN 'acquired' WHEN n %% 999 = 0 THEN 'force_released' ELSE 'released' END,
       %(team)s, %(space)s, CASE WHEN n %% 50 < 2 THEN 'busy' ELSE 'held/' || lpad((n / 2 %% 100000)::text, 7, '0') END,
       n, 'runner-' || n / 2 %% 500, 'h_bench', 'build=' || n, %(token)s,
       CASE WHEN n %% 2 = 1 AND n %% 999 = 0 THEN 'user' ELSE 'token' END,
       CASE WHEN n %% 2 = 1 AND n %% 999 = 0 THEN 'olga' ELSE 'bench' END, 'api',
       CASE WHEN n %% 2 = 1 AND n %% 999 = 0 THEN 'stuck' END, CASE WHEN n %% 2 = 1 THEN n %% 100000 END
FROM generate_series(1, {events}) AS n;

INSERT INTO octo_stats_minute (space_id, minute, acquired, released, refused, waited, renewed)
SELECT %(space)s, date_trunc('minute', now(), 'UTC') - n * interval '1 minute', 12, 11, 7, 2, 400
FROM generate_series(0, 10079) AS n;

INSERT INTO octo_stats_histogram (space_id, minute, measure, bucket, count)
SELECT %(space)s, date_trunc('minute', now(), 'UTC') - n * interval '1 minute', measure, 20 + bucket, 1 + bucket
FROM generate_series(0, 10079) AS n, unnest(ARRAY['hold', 'wait']) AS measure, generate_series(0, 9) AS bucket;

INSERT INTO octo_stats_contention (space_id, minute, name, refused, waited, waited_ms)
SELECT %(space)s, date_trunc('minute', now(), 'UTC') - n * interval '1 minute',
       'held/' || lpad((n * 7 %% 900 + k)::text, 7, '0'), 1 + k, k, k * 900
FROM generate_series(0, 10079) AS n, generate_series(0, 9) AS k;

ANALYZE;
"""

INCIDENT = """
UPDATE octo_lock SET renewed_at = acquired_at, expires_at = now() - interval '1 minute', ttl_seconds = 30
WHERE lease_id IS NOT NULL AND fencing_token > {locks} - 1000;

INSERT INTO octo_hold_baseline (lock_id, fencing_token, space_id, sample_size, median_ms, p90_ms, anomalous_after)
SELECT id, fencing_token, space_id, 12, 40000, 90000, now() - interval '1 minute'
FROM octo_lock WHERE fencing_token %% 10 = 1;

ANALYZE;
"""


def run(environment: Environment) -> None:
    for line in lines(environment.digest):
        print(line, flush=True)


def lines(digest: str) -> Iterator[str]:
    """`digest` is that of the token in whose space the locks are."""
    token = Token.objects.select_related("space").get(digest=bytes.fromhex(digest))
    ids = {"space": token.space_id, "team": token.space.team_id, "token": token.pk}
    with connection.cursor() as cursor:
        cursor.execute(FILL_LOCKS, {"locks": LOCKS, "digest": digest})
    _execute(FILL, ids)
    browser = log_in()
    yield f"{LOCKS:,} held locks, {EVENTS:,} events; milliseconds, over {ROUNDS} responses after the first."
    yield "CPU is the mean of the server's and the database's together.\n"
    yield "| page | first | median | max | CPU | queries | in SQL | slowest query |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for name, path in PAGES.items():
        yield _row(browser, name, path)
    _execute(INCIDENT, ids)
    for name, path in PAGES_AFTER_INCIDENT.items():
        yield _row(browser, f"{name}, after an incident", path)


def log_in() -> Client:
    browser = Client(headers={"Host": "localhost"})
    browser.force_login(User.objects.create_superuser("root", "root@example.com", None))
    return browser


def get(browser: Client, path: str) -> None:
    """Requests a page of the space without what the process caches for a second."""
    latest_counters.forget()
    latest_state.forget()
    response = browser.get(f"/ui/bench/main/{path}")
    if response.status_code != 200:
        raise RuntimeError(f"{path}: status {response.status_code}")


def cpu_ms() -> float:
    """CPU time of this process, of the database backend behind its connection, and of that backend's parallel workers
    that have ended, which /proc adds to their parent, the postmaster."""
    connection.ensure_connection()
    backend = Path("/proc") / str(connection.connection.info.backend_pid)
    postmaster = Path("/proc") / _stat(backend)[1]
    ticks = sum(int(value) for value in _stat(postmaster)[13:15])
    return (
        time.process_time() * 1000
        + int((backend / "schedstat").read_text().split()[0]) / 1_000_000
        + ticks * 1000 / os.sysconf("SC_CLK_TCK")
    )


def _stat(process: Path) -> list[str]:
    """The fields of /proc/<pid>/stat after the command, which may contain spaces."""
    return (process / "stat").read_text().rpartition(") ")[2].split()


def _execute(statements: str, ids: dict[str, int]) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in statements.format(locks=LOCKS, events=EVENTS).split(";"):
            if statement.strip():
                cursor.execute(statement, ids)


def _row(browser: Client, name: str, path: str) -> str:
    durations: list[float] = []
    cpu: list[float] = []
    for _ in range(ROUNDS + 1):
        cpu_before, started = cpu_ms(), time.perf_counter()
        get(browser, path)
        durations.append((time.perf_counter() - started) * 1000)
        cpu.append(cpu_ms() - cpu_before)
    queries: list[tuple[float, str, Any]] = []

    def record(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        started = time.perf_counter()
        result = execute(sql, parameters, many, context)
        queries.append(((time.perf_counter() - started) * 1000, sql, parameters))
        return result

    with connection.execute_wrapper(record):
        get(browser, path)
    _duration, sql, parameters = max(queries, key=lambda query: query[0])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF) {sql}", parameters)
        *_plan, (last,) = cursor.fetchall()
    slowest = float(last.removeprefix("Execution Time: ").removesuffix(" ms"))
    first, later = durations[0], durations[1:]
    figures = (
        first, statistics.median(later), max(later), statistics.mean(cpu[1:]), len(queries),
        sum(query[0] for query in queries), slowest,
    )  # fmt: skip
    return f"| {name} | " + " | ".join(f"{figure:.0f}" for figure in figures) + " |"
