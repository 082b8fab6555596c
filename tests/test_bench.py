"""Small versions of the measurements, so that one that no longer runs is noticed."""

import asyncio
import os

import psutil
import psycopg
import pytest

from bench import ceiling, growth, pages, pgbench, store, waiting
from bench.comparison import Comparison, Result
from bench.contenders import DRF_PATH, ETCD, FAST_PATH, SPECS, octoadmin_server
from bench.report import goal_lines
from bench.samples import Sample
from bench.setup import create_token
from locks.models import Event, Waiter
from locks.postgresql.connections import AsyncConnection

pytestmark = pytest.mark.usefixtures("committed")


@pytest.mark.long
def test_waiting_is_measured(monkeypatch, tmp_path):
    small = {"HANDOVERS": 3, "HANDOVER_ROUNDS": 1, "WAITERS": 20, "GROUP_SIZE": 10, "ROUNDS": 1, "SECONDS": 0.2}
    for name, value in small.items():
        monkeypatch.setattr(waiting, name, value)
    lines = list(waiting.lines(waiting.measure(os.environ["DATABASE_URL"], tmp_path)))
    assert [line.split("|")[1].split(",")[0].strip() for line in lines[2:]] == [
        "release to the waiter's response",
        "release to the waiter's response",
        "pairs/s with 20 waiters ÷ without",
        "memory of the server process without waiters",
        "memory of the server process with 20 waiters",
    ]
    acquired = Event.objects.filter(kind="acquired", lock_name__startswith="handover-0-")
    assert acquired.count() == 2 * waiting.HANDOVERS
    assert not Waiter.objects.exists()


@pytest.mark.long
def test_the_engine_is_measured_alone(tmp_path):
    _token, digest = create_token("bench")
    script = tmp_path / "script"
    script.write_text(pgbench.script(digest))
    sample = pgbench.run(script, conninfo=os.environ["DATABASE_URL"], connections=2, seconds=1, directory=tmp_path)
    assert sample.pairs_per_second > 1
    assert sample.failed == 0
    assert Event.objects.filter(kind="released", lock_name__startswith="job-1000").exists()


@pytest.mark.long
def test_the_ceiling_is_measured(monkeypatch):
    for name in ("PAIRS", "WARM_UP_PAIRS"):
        monkeypatch.setattr(ceiling, name, 80)
    _token, digest = create_token("bench")
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        cluster = psutil.Process(connection.info.backend_pid).parent()
    costs = asyncio.run(ceiling._measure(os.environ["DATABASE_URL"], cluster, digest))
    assert costs[1] > costs[40] > 0
    assert Event.objects.filter(kind="released").count() == 2 * 80 * len(ceiling.BATCH_SIZES)


@pytest.mark.long
def test_the_store_is_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(store, "KEYS", 3)
    monkeypatch.setattr(store, "STATEMENTS", 2)
    monkeypatch.setattr(store, "SIZES", (100, 20_000))
    monkeypatch.setattr(store, "CONNECTIONS", 2)
    for team in ("waiting", "bench"):
        create_token(team)
    measured = store.Measured()
    with octoadmin_server(os.environ["DATABASE_URL"], tmp_path) as (port, _process):
        token = store.start_run()
        requests = store.octoadmin_requests(token)
        for operation in ("set", "get"):
            rate = asyncio.run(store.load(port, requests[operation], seconds=0.5))
            measured.rates["octoadmin", operation] = [rate]
    store.measure_growth(measured, token)
    lines = list(store.lines(measured))
    assert [line.split("|")[1].strip() for line in lines if line.startswith(("| get", "| set"))] == ["get", "set"] * 2


@pytest.mark.long
def test_growth_is_measured(monkeypatch):
    monkeypatch.setattr(growth, "OPERATIONS_PER_ROUND", 2)
    _token, digest = create_token("bench")

    async def measure() -> growth.Table:
        async with await AsyncConnection.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
            await connection.execute(growth.FILL_LOCKS, {"locks": 10, "digest": digest})
            table = growth.Table(10, connection, digest)
            for _ in range(growth.WARM_UP_ROUNDS + 1):
                for operation in growth.OPERATIONS:
                    await table.measure(operation)
            return table

    _head, _rule, *rows = growth.lines([asyncio.run(measure())])
    assert [row.split("|")[1].strip() for row in rows] == list(growth.OPERATIONS)


@pytest.mark.long
def test_pages_are_measured(monkeypatch):
    for name, value in {"LOCKS": 4_000, "EVENTS": 2_000, "ROUNDS": 1}.items():
        monkeypatch.setattr(pages, name, value)
    _token, digest = create_token("bench")
    rows = [line for line in pages.lines(digest) if line.startswith("| ")][1:]
    assert len(rows) == len(pages.PAGES) + len(pages.PAGES_AFTER_INCIDENT)


def test_goals_compare_samples_of_the_same_turn():
    def result(name: str, connections: int, rates: dict[int, float]) -> Result:
        spec = next(spec for spec in SPECS if spec.name == name)
        return Result(spec, {connections: {turn: Sample(rate, 1, 1, 0, 0) for turn, rate in rates.items()}})

    # In turn 1 only the fast path ran; in turn 2 the machine was slow for both.
    ours = result(FAST_PATH, 64, {0: 2000, 1: 9000, 2: 200})
    ours.samples[1] = ours.samples[64]
    etcd = result(ETCD, 64, {0: 1000, 2: 100})
    etcd.samples[1] = {0: Sample(2500, 1, 1, 0, 0)}
    compared = Comparison({FAST_PATH: ours, ETCD: etcd}, [], {})
    lines = list(goal_lines(compared, acquire_growth=1.0))
    assert f"| {FAST_PATH} ÷ {ETCD}, 64 connections | 2.00 | ≥ 2.0 | met |" in lines
    assert f"| {FAST_PATH} ÷ {ETCD}, 1 connection | 0.80 | ≥ 0.9 | **missed** |" in lines
    assert f"| {FAST_PATH} ÷ {DRF_PATH}, 64 connections |  | ≥ 6.0 | left out |" in lines
