"""A bulk release by Celery's real worker: from the form to the last lock, also when the worker is killed half-way."""

import os
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire
from locks.models import BulkRelease, Event, Lock, TaskRun
from tests.locks.dashboard.conftest import Worker
from tests.octoadmin.run.test_worker import running_worker
from tests.polling import until

pytestmark = [pytest.mark.timeout(150), pytest.mark.xdist_group("up")]

LOCKS = 350
URL = "/ui/blue/main/releases/"


@pytest.fixture
def queue() -> Path:
    """Where this process' tasks are queued, so that the worker finds them."""
    return Path(os.environ["OCTO_DATA_DIR"])


@pytest.fixture
def held(committed, worker_token, space) -> None:
    digest = Worker(worker_token).digest
    names = [f"job-{number:04}" for number in range(LOCKS)]
    run(acquire([requests.Acquire(digest=digest, name=name, ttl_seconds=600) for name in names]))


def confirm(person) -> BulkRelease:
    browser = Client()
    browser.force_login(person)
    browser.post(URL + "prepare", {"all": "now", "prefix": "job-"})
    batch = BulkRelease.objects.get()
    form = {"reason": "their host is gone", "lock_delay_seconds": 0, "typed": f"release {LOCKS}"}
    assert browser.post(f"{URL}{batch.pk}/confirm", form).status_code == 302
    return batch


def state(batch: BulkRelease) -> str:
    batch.refresh_from_db()
    return batch.state


def forced() -> int:
    return Event.objects.filter(kind="force_released").count()


def test_from_the_form_to_the_last_lock_also_when_the_worker_is_killed(held, olga, queue):
    with psycopg.connect(os.environ["DATABASE_URL"]) as blocker:
        blocker.execute("SELECT FROM octo_lock WHERE name = 'job-0250' FOR UPDATE")
        with running_worker(queue) as worker:
            batch = confirm(olga)
            # Its third chunk contains the lock whose row is locked.
            until(lambda: batch.rows.filter(outcome="released").count() == 200, "two hundred released")
            until(_until_blocked_for_a_row, "the worker in the middle of a chunk")
            worker.kill()
            worker.wait()
        blocker.rollback()
    until(lambda: not _others_are_connected(), "the connections of the dead worker are gone")
    assert (state(batch), forced(), batch.rows.filter(outcome=None).count()) == ("confirmed", 200, LOCKS - 200)
    assert Lock.objects.filter(lease_id__isnull=False).count() == LOCKS - 200
    TaskRun.objects.all().delete()
    with running_worker(queue):
        until(lambda: state(batch) == "finished", "the rest")
    assert forced() == LOCKS
    assert Event.objects.filter(kind="force_released").values("lock_name").distinct().count() == LOCKS
    assert set(batch.rows.values_list("outcome", flat=True)) == {"released"}
    finished = Event.objects.get(kind="bulk_release_finished")
    assert finished.detail == {"batch": batch.pk, "released": LOCKS, "skipped": 0}
    call_command("verify_audit")


def _until_blocked_for_a_row() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone()[0] > 0


def _others_are_connected() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
            " AND usename = current_user"
        )
        return cursor.fetchone()[0] > 0
