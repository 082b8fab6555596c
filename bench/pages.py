"""`python -m bench.pages`: how long the server takes for each page at 100,000 held locks and a million events.

On an embedded PostgreSQL of its own. Server time is that of Django's whole answer (middleware, view, queries,
template), without the network; how long the slowest query of each page takes is said by the database itself.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from octoadmin.run.postgres import Cluster, stop

LOCKS = 100_000
EVENTS = 1_000_000
ROUNDS = 15

# Everything is under one prefix, which is the most that one group can have.
PAGES = {
    "Now": "",
    "Now, last page": "?page=200",
    "Now, searched": "?q=held/00777",
    "Now, searched for what is not there": "?q=zebra",
    "Now, the same in another script": "?q=%D0%B7%D0%B5%D0%B1%D1%80%D0%B0",
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
# A bad day: ten thousand leases are held far longer than usual, and a thousand have run out with no worker to see it.
AFTER_TROUBLE = {"Now": "", "Now, by owner": "?group=owner", "Stuck": "stuck", "Stuck, last page": "stuck?page=200"}

FILL = """
INSERT INTO octo_lock (space_id, name, fencing_token, lease_id, holder_id, token_id, owner, metadata, ttl_seconds,
                       lock_delay_seconds, acquired_at, renewed_at, expires_at, next_sweep_at, renewals)
SELECT %(space)s, 'held/' || lpad(n::text, 7, '0'), n + 1, gen_random_uuid(), 'h_bench', %(token)s,
       'runner-' || n %% 500, 'build=' || n || ' ref=main', 86400, 0, now() - n * interval '30 milliseconds', now(),
       now() + interval '1 day', now() + interval '1 day', 3
FROM generate_series(1, {locks}) AS n;

-- One lock in ten is tied to a session, twenty to each.
INSERT INTO octo_session (id, space_id, token_id, owner, ttl_seconds, kept_alive_at, expires_at, next_sweep_at)
SELECT md5(n::text)::uuid, %(space)s, %(token)s, 'runner-' || n %% 500, 300, now(), now() + interval '1 day', now()
FROM generate_series(1, {locks} / 200) AS n;
UPDATE octo_lock SET session_id = session, bound_session_id = session
FROM (SELECT id, md5((fencing_token / 200 + 1)::text)::uuid AS session FROM octo_lock) AS tied
WHERE tied.id = octo_lock.id AND fencing_token %% 10 = 0 AND fencing_token / 200 < {locks} / 200;

SELECT octo_event_partition((now() - step * interval '1 month')::date) FROM generate_series(0, 2) AS step;

-- Over 30 days: the beginnings and the ends of holds. One event in fifty is of one busy lock.
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

TROUBLE = """
UPDATE octo_lock SET renewed_at = acquired_at, expires_at = now() - interval '1 minute', ttl_seconds = 30
WHERE lease_id IS NOT NULL AND fencing_token > {locks} - 1000;

INSERT INTO octo_hold_baseline (lock_id, fencing_token, space_id, holds, median_ms, p90_ms, anomalous_after)
SELECT id, fencing_token, space_id, 12, 40000, 90000, now() - interval '1 minute'
FROM octo_lock WHERE fencing_token %% 10 = 1;

ANALYZE;
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="octo-bench-") as directory:
        cluster = Cluster(directory=Path(directory) / "postgres")
        cluster.initialise()
        with (Path(directory) / "postgres.log").open("wb") as log:
            process = cluster.start(log=log)
        try:
            cluster.wait_ready(process)
            cluster.create_database()
            os.environ |= {
                "DATABASE_URL": cluster.conninfo(),
                "OCTO_DATA_DIR": str(Path(directory) / "data"),
                "SECRET_KEY": "only for measurements, and nothing else",
                "DJANGO_SETTINGS_MODULE": "octoadmin.settings",
                "LOG_LEVEL": "error",
            }
            for command in (["migrate", "--verbosity", "0"], ["collectstatic", "--noinput", "--verbosity", "0"]):
                subprocess.run([sys.executable, "manage.py", *command], check=True)
            import django

            django.setup()
            for line in measure():
                print(line, flush=True)
        finally:
            stop(process)


def measure() -> Iterator[str]:
    asked = _place()
    _run(FILL, asked)
    yield f"{LOCKS:,} held locks, {EVENTS:,} events; milliseconds of {ROUNDS} answers after the first."
    yield "CPU, on average, is that of the server and of the database together.\n"
    yield "| page | first | median | worst | CPU | queries | in SQL | slowest query |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for name, path in PAGES.items():
        yield _page(name, f"/ui/bench/main/{path}")
    _run(TROUBLE, asked)
    for name, path in AFTER_TROUBLE.items():
        yield _page(f"{name}, on a bad day", f"/ui/bench/main/{path}")


def _place() -> dict[str, int]:
    from locks.models import Space, Team, User
    from locks.services import tokens
    from locks.services.audit import Actor

    User.objects.create_superuser("root", "root@example.com", None)
    team = Team.objects.create(slug="bench", name="Bench")
    space = Space.objects.create(team=team, slug="main", name="Main", max_live_locks=10**6)
    _plaintext, token = tokens.issue(actor=Actor.of_shell(), space=space, name="bench", scopes=["locks:write"])
    return {"space": space.pk, "team": team.pk, "token": token.pk}


def _run(statements: str, asked: dict[str, int]) -> None:
    from django.db import connection, transaction

    with transaction.atomic(), connection.cursor() as cursor:
        for statement in statements.format(locks=LOCKS, events=EVENTS).split(";"):
            if statement.strip():
                cursor.execute(statement, asked)


def _worked() -> float:
    """Milliseconds of CPU that this process, the database's behind its connection and the workers that help that one
    have used; unlike the time on the clock, they are the same on a machine that has much else to do."""
    from django.db import connection

    connection.ensure_connection()
    backend = Path("/proc") / str(connection.connection.info.backend_pid)
    postmaster = (backend / "stat").read_text().rpartition(") ")[2].split()[1]
    ended = Path(f"/proc/{postmaster}/stat").read_text().rpartition(") ")[2].split()
    ticks = int(ended[13]) + int(ended[14])
    return (
        time.process_time() * 1000
        + int((backend / "schedstat").read_text().split()[0]) / 1_000_000
        + ticks * 1000 / os.sysconf("SC_CLK_TCK")
    )


def _page(name: str, path: str) -> str:
    from django.db import connection
    from django.test import Client

    from locks.models import User
    from locks.system_state.counters import latest as latest_counters
    from locks.system_state.database import latest as latest_state

    browser = Client()
    browser.force_login(User.objects.get(username="root"))
    took: list[float] = []
    worked: list[float] = []
    for _ in range(ROUNDS + 1):
        # What is shared for a second is asked anew each time.
        latest_counters.clear()
        latest_state.clear()
        worked_before = _worked()
        began = time.perf_counter()
        reply = browser.get(path, headers={"Host": "localhost"})
        took.append((time.perf_counter() - began) * 1000)
        worked.append(_worked() - worked_before)
        assert reply.status_code == 200, (path, reply.status_code)
    asked: list[tuple[float, str, Any]] = []

    def note(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        began = time.perf_counter()
        result = execute(sql, parameters, many, context)
        asked.append(((time.perf_counter() - began) * 1000, sql, parameters))
        return result

    with connection.execute_wrapper(note):
        browser.get(path, headers={"Host": "localhost"})
    _slowest, sql, parameters = max(asked, key=lambda query: query[0])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF) {sql}", parameters)
        *_plan, (last,) = cursor.fetchall()
    slowest = float(last.removeprefix("Execution Time: ").removesuffix(" ms"))
    first, later = took[0], took[1:]
    figures = (
        first, statistics.median(later), max(later), statistics.mean(worked[1:]), len(asked),
        sum(query[0] for query in asked), slowest,
    )  # fmt: skip
    return f"| {name} | " + " | ".join(f"{figure:.0f}" for figure in figures) + " |"


if __name__ == "__main__":
    main()
