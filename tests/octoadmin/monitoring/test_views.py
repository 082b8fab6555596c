"""/health, /status and /metrics, with the database, without it, and with one that does not answer."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from locks.models import Heartbeat, Lock, Space, Token
from locks.models.space import SpaceUsage
from locks.models.stats import StatsMinute
from locks.system_state import writes
from locks.system_state.counters import latest, latest_totals
from tests import database
from tests.conftest import issue
from tests.fault_proxy import PostgresProxy
from tests.servers import Api, running_server

PROBES = ("/health", "/status", "/metrics")


@pytest.fixture(autouse=True)
def _fresh_counters() -> Iterator[None]:
    for cache in (latest, latest_totals, writes.latest):
        cache.clear()
    yield
    for cache in (latest, latest_totals, writes.latest):
        cache.clear()


@pytest.fixture
def proxy(django_db_setup: None, django_db_blocker: Any) -> Iterator[PostgresProxy]:
    """The test's thread reaches the database through this."""
    changed = connection.settings_dict
    original = dict(changed)
    # Not tmp_path, which is too long for the name of a socket.
    with tempfile.TemporaryDirectory() as directory, django_db_blocker.unblock():
        connection.close()
        proxy = PostgresProxy(Path(directory), params=connection.get_connection_params())
        changed.update(HOST=directory, PORT="5432")
        yield proxy
        proxy.close()
        connection.close()
        changed.update(original)


def samples(client: Client) -> dict[tuple[str, ...], float]:
    reply = client.get("/metrics")
    assert reply.status_code == 200
    assert reply["Content-Type"].startswith("text/plain")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(reply.content.decode())
        for sample in family.samples
    }


@pytest.mark.django_db
@pytest.mark.parametrize(("age", "worker"), [(timedelta(0), "ok"), (timedelta(minutes=1), "silent"), (None, "silent")])
def test_health_is_ok_and_mentions_a_missing_worker(client: Client, age: timedelta | None, worker: str) -> None:
    if age is not None:
        Heartbeat.objects.create(name="worker@harbor:8000", seen_at=datetime.now(UTC) - age)
    reply = client.get("/health")
    body = reply.json()
    assert body.pop("db_size_bytes") > 100_000
    expected = {"status": "ok", "healthy": True, "worker": worker, "storage": "postgresql"}
    assert (reply.status_code, body) == (200, expected)
    assert reply["Cache-Control"] == "no-store"


@pytest.mark.django_db
@pytest.mark.parametrize("probe", PROBES)
def test_monitoring_paths_are_read_only(client: Client, probe: str) -> None:
    assert client.head(probe).status_code == 200
    assert client.post(probe).status_code == 405


def test_health_is_unavailable_when_the_database_is_gone(client: Client, proxy: PostgresProxy) -> None:
    assert client.get("/health").status_code == 200
    proxy.close()
    reply = client.get("/health")
    assert (reply.status_code, reply.json()["status"], reply["Retry-After"]) == (503, "unavailable", "1")


def test_health_is_ok_again_when_the_database_is_back(client: Client, proxy: PostgresProxy) -> None:
    assert client.get("/health").status_code == 200
    proxy.cut()
    assert client.get("/health").status_code == 200


def test_health_does_not_wait_for_a_frozen_database(
    client: Client, proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/health").status_code == 200
    proxy.freeze()
    with monkeypatch.context() as impatient:
        impatient.setattr("octoadmin.monitoring.views.ANSWER_TIMEOUT", 0.2)
        # Two seconds is the least that libpq waits for a connection.
        impatient.setitem(connection.settings_dict["OPTIONS"], "connect_timeout", 2)
        # It answers at all.
        assert client.get("/health").status_code == 503
    proxy.thaw()
    assert client.get("/health").status_code == 200


@pytest.mark.usefixtures("committed")
def test_health_is_unavailable_while_the_database_is_read_only(client: Client) -> None:
    name = connection.settings_dict["NAME"]
    for value, status in (("on", 503), ("off", 200)):
        with database.maintenance() as maintenance:
            maintenance.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {value}')
        connection.close()
        writes.latest.clear()
        reply = client.get("/health")
        assert (reply.status_code, reply.json().get("database")) == (
            status,
            "no primary answers" if status == 503 else None,
        )


@pytest.mark.django_db
def test_status_counts(client: Client, space: Space, red_space: Space) -> None:
    SpaceUsage.objects.create(space=space, live_locks=40)
    SpaceUsage.objects.create(space=red_space, live_locks=2)
    issue(space, "worker", "locks:read")
    revoked = Token.objects.get()
    issue(red_space, "worker", "locks:read")
    for number, each in enumerate((space, red_space), start=1):
        minute = datetime(2026, 11, 17, number, tzinfo=UTC)
        StatsMinute.objects.create(space_id=each.pk, minute=minute, acquired=10 * number, released=number)
    Token.objects.filter(pk=revoked.pk).update(revoked_at=datetime.now(UTC))
    body = client.get("/status").json()
    assert abs(datetime.fromisoformat(body.pop("server_time")) - datetime.now(UTC)) < timedelta(minutes=1)
    assert body.pop("uptime_seconds") >= 0
    assert body == {
        "status": "ok", "version": "0.2.0", "live_locks": 42, "spaces": 2, "active_locks": 42, "total_users": 1,
        "total_acquires": 30, "total_releases": 3,
    }  # fmt: skip


@pytest.mark.django_db
def test_status_queries_at_most_once_a_second(
    client: Client, django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert latest._seconds == 1
    # A second that ends when the test has seen it.
    monkeypatch.setattr(latest, "_seconds", 60)
    first = client.get("/status").json()["server_time"]
    time.sleep(0.01)
    with django_assert_num_queries(0):
        second = client.get("/status").json()["server_time"]
    assert second > first


def test_status_is_unavailable_when_the_database_is_gone(client: Client, proxy: PostgresProxy) -> None:
    proxy.close()
    reply = client.get("/status")
    assert (reply.status_code, reply.json()["status"]) == (503, "unavailable")
    assert reply.json()["version"] == "0.2.0"


@pytest.mark.django_db
def test_metrics_of_the_database_and_the_background_tasks(client: Client, space: Space) -> None:
    SpaceUsage.objects.create(space=space, live_locks=7)
    Heartbeat.objects.create(name="beat", seen_at=datetime.now(UTC) - timedelta(seconds=90))
    found = samples(client)
    assert found["octoadmin_database_up",] == 1
    assert found["octoadmin_live_locks",] == 7
    assert found["octoadmin_spaces",] == 1
    assert found["octoadmin_heartbeat_age_seconds", "beat"] == pytest.approx(90, abs=30)
    assert ("octoadmin_requests_waiting",) in found


def test_metrics_are_there_when_the_database_is_not(client: Client, proxy: PostgresProxy) -> None:
    proxy.close()
    found = samples(client)
    assert found["octoadmin_database_up",] == 0
    assert ("octoadmin_live_locks",) not in found


@pytest.mark.django_db
def test_monitoring_shows_no_lock_team_or_token(client: Client, space: Space, worker_token: str) -> None:
    Lock.objects.create(space=space, name="deploy-secret-project")
    for probe in PROBES:
        text = client.get(probe).content.decode()
        for private in ("deploy-secret-project", space.team.name, space.name, Token.objects.get().public_id):
            assert private not in text


def test_metrics_of_several_processes_are_summed_up(tmp_path: Path, django_db_setup: None) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    count = "count_request(kind='django', method='GET', status=200, seconds=0.1)"
    show = "print(render_metrics().decode())"
    for line in (count, f"{count}; {show}"):
        script = (
            "from octoadmin.monitoring.prometheus import render_metrics\n"
            f"from octoadmin.monitoring.request_metrics import count_request\n{line}"
        )
        run = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
    assert 'octoadmin_requests_total{kind="django",method="GET",status="2xx"} 2.0' in run.stdout
    assert "octoadmin_database_up 1.0" in run.stdout


def test_other_methods_get_the_error_of_the_contract() -> None:
    client = Client(enforce_csrf_checks=True)
    for probe in PROBES:
        for method in ("POST", "PUT", "OPTIONS"):
            answer = client.generic(method, probe)
            assert (answer.status_code, answer.json()["code"]) == (405, "invalid_input")
            assert answer["Allow"] == "GET, HEAD"


@pytest.mark.timeout(90)
def test_metrics_of_two_server_processes_are_summed_up(committed: None) -> None:
    of_another_server = Path(os.environ["OCTO_DATA_DIR"]) / "metrics" / "1" / "counter_1.db"
    of_another_server.parent.mkdir(parents=True, exist_ok=True)
    of_another_server.touch()
    with running_server(os.environ["DATABASE_URL"], OCTO_WORKERS="2") as server:
        for _ in range(20):
            with closing(Api(server.port)) as api:
                api.call("GET", "/status")
        with closing(Api(server.port)) as api:
            text = api.call("GET", "/metrics").content.decode()
    (line,) = [line for line in text.splitlines() if line.startswith("octoadmin_requests_total") and "2xx" in line]
    assert float(line.split()[-1]) >= 20
    assert of_another_server.exists()
