"""/metrics tells how far the sweep is behind and how the background tasks fare."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from locks import tasks
from locks.models import TaskRun
from locks.system_state.counters import latest
from tests.locks.engine.conftest import Engine
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.django_db


def samples(client: Client) -> dict[tuple[str, ...], float]:
    latest.clear()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(client.get("/metrics").content.decode())
        for sample in family.samples
    }


def test_the_sweep_lag(client: Client, operator_token: str) -> None:
    assert samples(client)["octoadmin_sweep_lag_seconds",] == 0
    Engine(operator_token).acquire("deploy", ttl_seconds=2)
    assert samples(client)["octoadmin_sweep_lag_seconds",] == 0
    pass_seconds(62)
    assert samples(client)["octoadmin_sweep_lag_seconds",] >= 60
    tasks.sweep()
    assert samples(client)["octoadmin_sweep_lag_seconds",] == 0


def test_the_latest_run_of_each_task(client: Client) -> None:
    tasks.sweep()
    TaskRun.objects.create(
        name="retention", finished_at=datetime.now(UTC) - timedelta(hours=2), duration_ms=1500, queued_ms=250,
        outcome="ValueError", failed=True,
    )  # fmt: skip
    found = samples(client)
    assert found["octoadmin_task_age_seconds", "retention"] == pytest.approx(7200, abs=60)
    assert found["octoadmin_task_seconds", "retention"] == 1.5
    assert found["octoadmin_task_queue_seconds", "retention"] == 0.25
    assert (found["octoadmin_task_failed", "retention"], found["octoadmin_task_failed", "sweep"]) == (1, 0)
    # It was not queued: the test called it.
    assert ("octoadmin_task_queue_seconds", "sweep") not in found


def test_a_run_records_its_outcome(operator_token: str) -> None:
    Engine(operator_token).acquire("deploy", ttl_seconds=2)
    pass_seconds(3)
    tasks.sweep()
    assert TaskRun.objects.get(name="sweep").outcome == "1 expired"
    tasks.sweep()
    assert TaskRun.objects.get(name="sweep").outcome == "0 expired"


def test_a_heartbeat_is_that_of_worker_and_beat() -> None:
    tasks.heartbeat(beat="here")
    tasks.heartbeat(beat="here")
    assert "beat@here" in TaskRun.objects.get(name="heartbeat").outcome
