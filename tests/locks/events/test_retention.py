"""Retention: partitions ahead and their end, idle names without a fencing token going back, old statistics."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import DatabaseError, connection, transaction

from locks import tasks
from locks.engine.execution import run
from locks.engine.maintenance import purge_idle_locks
from locks.events.history.retention import MONTHS_AHEAD, drop_partitions, drop_statistics, make_partitions
from locks.models import Event, Heartbeat, Lock, Session, Space, StatsMinute, TaskRun, Token, Waiter
from tests.locks.engine.conftest import Engine


@pytest.fixture
def engine(operator_token: str) -> Engine:
    return Engine(operator_token)


def partitions() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'octo_event'::regclass")
        return {name for (name,) in cursor.fetchall()}


def write_event(at: str, name: str = "a") -> str:
    """The partition it went to."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO octo_event (at, kind, lock_name, actor_kind, actor_name, channel)"
            " VALUES (%s, 'released', %s, 'system', 'test', 'task') RETURNING tableoid::regclass::text",
            [at, name],
        )
        (partition,) = cursor.fetchone()
        return partition


def age(name: str, *, days: int) -> None:
    """The fencing token as well, since it follows the clock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE octo_lock SET updated_at = updated_at - make_interval(days => %(days)s),"
            " fencing_token = fencing_token - %(days)s::bigint * 86400000 WHERE name = %(name)s",
            {"days": days, "name": name},
        )


def free(engine: Engine, name: str, **terms) -> int:
    lease = engine.acquire(name, **terms)
    engine.release(name, lease.lease_id)
    return lease.fencing_token


@pytest.mark.django_db
def test_the_coming_months_have_partitions() -> None:
    assert make_partitions() == 0
    today = datetime.now(UTC).date()
    for ahead in range(MONTHS_AHEAD + 1):
        month = today.year * 12 + today.month - 1 + ahead
        assert f"octo_event_{month // 12}_{month % 12 + 1:02}" in partitions()
    before = partitions()
    assert make_partitions() == 0
    assert partitions() == before


@pytest.mark.django_db
def test_what_no_month_covered_moves_into_the_new_partition_and_stays_append_only() -> None:
    """As after many months without Celery."""
    assert write_event("2001-02-03Z", "early") == "octo_event_default"
    assert write_event("2001-03-01Z", "later") == "octo_event_default"
    with connection.cursor() as cursor:
        cursor.execute("SELECT octo_event_partition('2001-02-20')")
        cursor.execute("SELECT tableoid::regclass::text, lock_name FROM octo_event WHERE at < '2002-01-01' ORDER BY at")
        assert cursor.fetchall() == [("octo_event_2001_02", "early"), ("octo_event_default", "later")]
    for statement in (
        "DELETE FROM octo_event_default",
        "DELETE FROM octo_event_2001_02",
        "TRUNCATE octo_event_2001_02",
    ):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            connection.cursor().execute(statement)
    assert write_event("2001-02-28T23:59:59Z") == "octo_event_2001_02"


@pytest.mark.django_db
def test_months_past_the_retention_are_dropped_and_no_others() -> None:
    for month in ("2001-01-01", "2001-02-01"):
        with connection.cursor() as cursor:
            cursor.execute("SELECT octo_event_partition(%s)", [month])
    write_event("2001-01-15Z")
    before = partitions()
    assert drop_partitions(days=400) == ["octo_event_2001_01", "octo_event_2001_02"]
    assert before - partitions() == {"octo_event_2001_01", "octo_event_2001_02"}
    assert drop_partitions(days=0) == []
    assert not Event.objects.filter(at__year=2001).exists()


@pytest.mark.usefixtures("committed")
def test_a_partition_that_is_being_read_is_left_to_the_next_run(engine: Engine) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT octo_event_partition('2001-01-01')")
    reading, done = threading.Event(), threading.Event()

    def read() -> None:
        with transaction.atomic():
            Event.objects.count()
            reading.set()
            done.wait()
        connection.close()

    reader = threading.Thread(target=read)
    reader.start()
    reading.wait()
    assert drop_partitions(days=400) == []
    assert engine.acquire("meanwhile").verdict == "acquired"
    done.set()
    reader.join()
    assert drop_partitions(days=400) == ["octo_event_2001_01"]


@pytest.mark.django_db
def test_idle_names_go_and_their_next_token_is_higher_still(engine: Engine) -> None:
    token = free(engine, "idle")
    free(engine, "recent")
    engine.acquire("held", ttl_seconds=3600)
    age("idle", days=31)
    age("recent", days=29)
    age("held", days=31)
    assert run(purge_idle_locks(days=30)) == 1
    assert set(Lock.objects.values_list("name", flat=True)) == {"recent", "held"}
    assert engine.acquire("idle").fencing_token > token


@pytest.mark.django_db
def test_a_name_whose_token_is_ahead_of_the_clock_stays(engine: Engine) -> None:
    free(engine, "ahead")
    age("ahead", days=31)
    Lock.objects.update(fencing_token=2**52)
    assert run(purge_idle_locks(days=30)) == 0
    assert engine.acquire("ahead").fencing_token == 2**52 + 1


@pytest.mark.django_db
def test_rooms_of_elections_go_after_a_day(engine: Engine, space: Space) -> None:
    free(engine, "room")
    age("room", days=2)
    assert run(purge_idle_locks(days=30)) == 0
    assert run(purge_idle_locks(days=30, short_lived_space=space.pk)) == 1


@pytest.mark.django_db
def test_a_name_with_an_access_list_stays(engine: Engine) -> None:
    free(engine, "restricted")
    age("restricted", days=31)
    Lock.objects.update(acl=["user:operator"])
    assert run(purge_idle_locks(days=30)) == 0


@pytest.mark.django_db
def test_a_name_with_a_waiter_stays(engine: Engine, space: Space) -> None:
    free(engine, "waited-for")
    age("waited-for", days=31)
    Waiter.objects.create(
        space=space, name="waited-for", token=Token.objects.get(), owner="w", deadline_at=datetime.now(UTC)
    )
    assert run(purge_idle_locks(days=30)) == 0


@pytest.mark.django_db
def test_more_idle_names_than_a_batch_all_go(engine: Engine) -> None:
    for number in range(450):
        Lock.objects.create(space_id=Space.objects.get().pk, name=f"idle-{number}", fencing_token=1)
    Lock.objects.update(updated_at=datetime.now(UTC) - timedelta(days=31))
    assert run(purge_idle_locks(days=30)) == 450


@pytest.mark.usefixtures("committed")
def test_an_acquire_that_met_a_name_on_its_way_out_gets_a_higher_token(engine: Engine) -> None:
    token = free(engine, "idle")
    age("idle", days=31)
    started = threading.Barrier(2)
    got = []

    def acquire() -> None:
        started.wait()
        got.append(engine.acquire("idle"))
        connection.close()

    with transaction.atomic():
        assert run(purge_idle_locks(days=30)) == 1
        acquirer = threading.Thread(target=acquire)
        acquirer.start()
        started.wait()
        acquirer.join(timeout=0.3)
        assert not got
    acquirer.join()
    assert got[0].verdict == "acquired"
    assert got[0].fencing_token > token


@pytest.mark.django_db
def test_the_heartbeat_of_a_retired_machine_is_purged() -> None:
    now = datetime.now(UTC)
    for name, days in (("worker@retired", 8), ("worker@silent", 1)):
        Heartbeat.objects.create(name=name, seen_at=now - timedelta(days=days))
    tasks.retention()
    assert [heartbeat.name for heartbeat in Heartbeat.objects.all()] == ["worker@silent"]


@pytest.mark.django_db
def test_old_sessions_and_statistics_go(space: Space, worker_token: str) -> None:
    now = datetime.now(UTC)
    long_ago = now - timedelta(days=100)
    token = Token.objects.get()
    for name, ended in (("old", long_ago), ("new", now)):
        Session.objects.create(
            space=space, token=token, owner=name, ttl_seconds=60, created_at=long_ago - timedelta(days=1),
            expires_at=ended,
        )  # fmt: skip
        StatsMinute.objects.create(space_id=space.pk, minute=ended.replace(second=0, microsecond=0))
    drop_statistics(days=90)
    tasks.retention()
    assert [session.owner for session in Session.objects.all()] == ["new"]
    assert StatsMinute.objects.count() == 1
    run = TaskRun.objects.get(name="retention")
    assert (run.failed, run.outcome) == (False, "0 idle locks purged, 0 months dropped")
