"""Celery's real worker and beat beside a real server: what they keep up, also after a restart, and without them.

TEST_BROKER_URL names a Redis or RabbitMQ to run on; otherwise it is the queue of files.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models.functions import Now

from locks.models import Event, Heartbeat, Space, StatsMinute, TaskRun
from tests.polling import until
from tests.servers import PROJECT_DIR, RunningServer

# Two are promised; the rest is for a machine that runs other tests beside this one.
MAX_OVERDUE_MS = 15_000

pytestmark = [pytest.mark.timeout(150), pytest.mark.xdist_group("up")]


@contextmanager
def running_worker(data: Path) -> Iterator["subprocess.Popen[bytes]"]:
    (data / "queue" / "control").mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"OCTO_DATA_DIR": str(data)}
    if broker := os.environ.get("TEST_BROKER_URL"):
        environment["CELERY_BROKER_URL"] = broker
    process = subprocess.Popen([sys.executable, "-m", "octoadmin.run.worker"], cwd=PROJECT_DIR, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture
def data() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="octo-worker-") as directory:
        yield Path(directory)


def expired(name: str) -> list[Event]:
    return list(Event.objects.filter(kind="expired", lock_name=name))


def test_expirations_are_recorded_also_after_a_restart(server: RunningServer, data: Path, worker_token: str) -> None:
    api = server.api(worker_token)
    with running_worker(data):
        until(lambda: TaskRun.objects.filter(name="sweep").exists(), "a first sweep")
        assert api.call("POST", "/locks/a/acquire", {"ttl_seconds": 2}).json()["status"] == "acquired"
        until(lambda: bool(expired("a")), "the end of a")
        (event,) = expired("a")
        assert (event.held_ms, event.channel) == (2000, "task")
        assert 0 <= (event.recorded_late_ms or 0) < MAX_OVERDUE_MS
        api.call("POST", "/locks/b/acquire", {"ttl_seconds": 2})
    assert api.call("POST", "/locks/c/acquire", {"ttl_seconds": 1}).json()["status"] == "acquired"
    until(lambda: api.call("GET", "/locks/c").json()["status"] == "free", "c is over without Celery")
    assert api.call("POST", "/locks/c/acquire", {"ttl_seconds": 1}).json()["status"] == "acquired"
    assert len(expired("c")) == 1
    with running_worker(data):
        until(lambda: len(expired("b")) == 1 and len(expired("c")) == 2, "the ends of b and c")
        until(lambda: Heartbeat.objects.count() == 2, "heartbeats of worker and beat")
    names = {name.partition("@")[0] for name in Heartbeat.objects.values_list("name", flat=True)}
    assert names == {"worker", "beat"}
    run = TaskRun.objects.get(name="sweep")
    assert not run.failed
    assert run.queued_ms is not None
    call_command("verify_audit")
    metrics = api.call("GET", "/metrics").content.decode()
    for series in ("octoadmin_sweep_lag_seconds ", 'octoadmin_task_age_seconds{task="sweep"}'):
        assert series in metrics


@pytest.mark.long
def test_two_schedulers_at_once_are_safe(server: RunningServer, data: Path, worker_token: str, space: Space) -> None:
    api = server.api(worker_token)
    (data / "other").mkdir()
    with running_worker(data), running_worker(data / "other"):
        until(lambda: TaskRun.objects.filter(name="sweep").exists(), "a first sweep")
        for number in range(50):
            api.call("POST", f"/locks/job-{number}/acquire", {"ttl_seconds": 1})
        until(lambda: Event.objects.filter(kind="expired").count() >= 50, "all of them over")
        api.call("POST", "/locks/held/acquire")
        api.call("POST", "/locks/held/acquire")
        until(lambda: StatsMinute.objects.filter(space_id=space.pk, refused__gt=0).exists(), "the refusal")
    assert Event.objects.filter(kind="expired").count() == 50
    call_command("verify_audit")


@pytest.mark.long
def test_the_schedule_continues_where_a_killed_worker_stopped(committed: None, data: Path) -> None:
    def make_overdue() -> None:
        overdue = TaskRun(
            name="retention", finished_at=Now() - timedelta(hours=2), duration_ms=1, outcome="overdue", failed=False
        )
        TaskRun.objects.bulk_create(
            [overdue], update_conflicts=True, unique_fields=["name"], update_fields=["finished_at", "outcome"]
        )

    for _ in ("first", "after the kill"):
        make_overdue()
        with running_worker(data) as worker:
            until(lambda: TaskRun.objects.get(name="retention").outcome != "overdue", "the task that was overdue")
            worker.kill()
    assert [path.name for path in data.iterdir()] == ["queue"]


@pytest.mark.long
def test_a_worker_survives_a_lost_database_connection(server: RunningServer, data: Path, worker_token: str) -> None:
    api = server.api(worker_token)
    with running_worker(data) as worker:
        until(lambda: TaskRun.objects.filter(name="sweep").exists(), "a first sweep")
        with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND datname = current_database() AND application_name = 'octoadmin'"
            )
        connection.close()
        api.call("POST", "/locks/a/acquire", {"ttl_seconds": 1})
        until(lambda: bool(expired("a")), "the end of a")
        assert worker.poll() is None
