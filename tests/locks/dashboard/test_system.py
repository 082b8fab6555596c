"""System: the health of each part, and what to do if it is not healthy."""

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from locks.dashboard.system.background_checks import background, queue, sweep, tasks
from locks.dashboard.system.database_checks import database, history, replication
from locks.models import Heartbeat, SpaceUsage, TaskRun
from locks.system_state.counters import counters
from locks.system_state.counters import latest as latest_counters
from locks.system_state.database import DatabaseState, database_state
from locks.system_state.database import latest as latest_state
from locks.system_state.health import Health
from octoadmin.monitoring.prometheus import render_metrics

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _uncached() -> Iterator[None]:
    for latest in (latest_counters, latest_state):
        latest.clear()
    yield
    for latest in (latest_counters, latest_state):
        latest.clear()


@pytest.fixture
def running() -> None:
    for name in ("worker@harbor-1", "beat@harbor-1"):
        Heartbeat.objects.create(name=name, seen_at=Now())
    for name in ("sweep", "rollup"):
        TaskRun.objects.create(name=name, duration_ms=20, queued_ms=5, outcome="done", failed=False)


def checks(reply) -> dict[str, Health]:
    return {check.key: check.health for check in reply.context["checks"]}


def test_a_superuser_sees_every_part(running, space, visit, root, now_url):
    reply = visit(root).get(now_url + "system")
    content = reply.content.decode()
    assert checks(reply) == dict.fromkeys(
        ("sweep", "worker", "queue", "tasks", "database", "replication", "history", "server", "capacity"),
        Health.HEALTHY,
    )
    assert "All checks are healthy." in content
    assert "worker@harbor-1" in content
    assert "PostgreSQL" in content


def test_members_see_what_concerns_their_locks_and_no_host(running, space, visit, victor, alice, now_url):
    for member in (victor, alice):
        reply = visit(member).get(now_url + "system")
        content = reply.content.decode()
        assert set(checks(reply)) == {"sweep", "worker", "queue", "capacity", "retention"}
        assert re.search(r"Last heartbeat of the worker \d s ago", content)
        assert "harbor-1" not in content
        assert "PostgreSQL" not in content


def test_others_find_nothing(space, visit, bob, now_url, client):
    assert visit(bob).get(now_url + "system").status_code == 404
    assert client.get(now_url + "system").status_code == 302


def test_a_missing_worker_is_shown_with_advice(space, visit, victor, now_url):
    reply = visit(victor).get(now_url + "system")
    assert checks(reply)["worker"] is Health.ACTION_REQUIRED
    assert "Action required." in reply.content.decode()
    assert "python -m octoadmin.run.worker" in reply.content.decode()


def test_a_late_heartbeat_a_late_task_and_a_failed_one(running):
    Heartbeat.objects.update(seen_at=Now() - timedelta(seconds=30))
    assert background(counters(), with_names=False).health is Health.WARNING
    latest_counters.clear()
    TaskRun.objects.filter(name="rollup").update(finished_at=Now() - timedelta(hours=1))
    TaskRun.objects.filter(name="sweep").update(queued_ms=20_000)
    assert tasks(counters()).text == "Late: rollup."
    assert queue(counters()).health is Health.ACTION_REQUIRED
    latest_counters.clear()
    TaskRun.objects.filter(name="sweep").update(failed=True)
    assert (tasks(counters()).health, tasks(counters()).text) == (
        Health.ACTION_REQUIRED,
        "The latest run failed: sweep.",
    )


def test_a_sweep_that_is_behind(worker):
    held = worker.takes("job")
    from locks.models import Lock

    Lock.objects.filter(name=held.name).update(next_sweep_at=Now() - timedelta(seconds=60))
    check = sweep(counters())
    assert check.health is Health.ACTION_REQUIRED
    assert check.text == "The sweep is 1 min 00 s behind."


def test_a_space_near_its_limit_is_a_warning(running, space, visit, victor, now_url):
    SpaceUsage.objects.update_or_create(space=space, defaults={"live_locks": 90_000})
    assert checks(visit(victor).get(now_url + "system"))["capacity"] is Health.WARNING


def test_the_database_near_its_limits():
    now = database_state()

    def changed(**changes) -> DatabaseState:
        return DatabaseState(**{**vars(now), **changes})

    assert database(now).health is Health.HEALTHY
    assert database(changed(connections=now.max_connections)).health is Health.ACTION_REQUIRED
    assert database(changed(oldest_transaction_seconds=120.0)).health is Health.WARNING
    assert replication(changed(is_replica=True)).health is Health.ACTION_REQUIRED
    assert replication(changed(replicas=2, replica_lag_seconds=60.0)).health is Health.WARNING
    assert history(changed(months_ahead=-1)).health is Health.ACTION_REQUIRED
    assert history(changed(months_ahead=0)).health is Health.WARNING
    assert now.months_ahead >= 1
    assert now.first_month is not None


def test_metrics_have_the_same_values(running):
    metrics = render_metrics().decode()
    for name in ("database_bytes", "database_connections", "history_months_ahead", "live_streams", "server_processes"):
        assert f"\noctoadmin_{name} " in metrics


@pytest.mark.parametrize("page", ["", "owners", "locks/job", "activity"])
def test_problems_show_in_the_navigation_of_every_page(worker, running, space, visit, victor, now_url, page):
    worker.takes("job")
    hidden = '<b class="badge" id="badge-system" hidden>0</b>'
    assert hidden in visit(victor).get(now_url + page).content.decode()
    Heartbeat.objects.filter(name__startswith="beat@").delete()
    latest_counters.clear()
    assert '<b class="badge" id="badge-system">1</b>' in visit(victor).get(now_url + page).content.decode()
    latest_counters.clear()
    refresh = {"HX-Request": "true", "HX-Target": "live-content"}
    refreshed = visit(victor).get(now_url + page, headers=refresh).content.decode()
    assert '<b class="badge" id="badge-system" hx-swap-oob="true">1</b>' in refreshed


def test_commands_in_advice_are_code(space, visit, victor, now_url):
    text = visit(victor).get(now_url + "system").content.decode()
    assert "<code>python -m octoadmin.run.worker</code>" in text
    assert "`" not in text.split("<main", 1)[1]
