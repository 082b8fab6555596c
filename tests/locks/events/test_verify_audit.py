"""verify_audit: silent about a true history, and it names the first thing that cannot be."""

import threading
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.maintenance import sweep
from locks.engine.operations import acquire, release
from locks.models import Lock, Space
from tests.locks.engine.conftest import Engine


@pytest.fixture
def engine(operator_token: str) -> Engine:
    return Engine(operator_token)


def verify() -> str:
    said = StringIO()
    call_command("verify_audit", stdout=said)
    return said.getvalue()


def write(space: Space, kind: str, name: str, token: int, *, seconds: float = 0, holder: str = "h_1") -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO octo_event (at, kind, space_id, lock_name, fencing_token, holder_id, actor_kind, actor_name,"
            " channel) VALUES (clock_timestamp() + make_interval(secs => %s), %s, %s, %s, %s, %s, 'system', 'test',"
            " 'task')",
            [seconds, kind, space.pk, name, token, holder],
        )


@pytest.mark.django_db
def test_an_empty_history_is_consistent() -> None:
    assert "0 leases" in verify()


@pytest.mark.django_db
def test_every_transition_is_consistent(engine: Engine) -> None:
    engine.acquire("held")
    released = engine.acquire("released")
    engine.release("released", released.lease_id)
    engine.acquire("forced")
    engine.force_release("forced")
    for name in ("swept", "taken over", "over but not swept"):
        engine.acquire(name, ttl_seconds=1)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(1.01)")
    engine.acquire("taken over")
    Lock.objects.filter(name="over but not swept").update(next_sweep_at=F("next_sweep_at") + timedelta(hours=1))
    run(sweep())
    again = engine.acquire("released")
    engine.renew("released", again.lease_id)
    assert "8 leases" in verify()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([("acquired", 5, 0), ("acquired", 5, 1)], "acquired 2 times"),
        ([("acquired", 5, 0), ("released", 5, 1), ("expired", 5, 2)], "ended 2 times"),
        ([("released", 5, 0)], "never acquired"),
        ([("released", 5, 0), ("acquired", 5, 1)], "ended before it was acquired"),
        ([("acquired", 5, 0), ("acquired", 6, 1), ("released", 6, 2)], "had no end when 6 was acquired"),
        ([("acquired", 5, 0), ("acquired", 6, 1), ("released", 5, 2), ("released", 6, 3)], "overlaps 6"),
        ([("acquired", 6, 0), ("released", 6, 1), ("acquired", 5, 2), ("released", 5, 3)], "overlaps 6"),
        ([("acquired", 5, 0)], "no such lock"),
    ],
)
def test_a_contradiction_is_reported(space: Space, events: list[tuple[str, int, float]], problem: str) -> None:
    for kind, token, seconds in events:
        write(space, kind, "deploy", token, seconds=seconds)
    with pytest.raises(CommandError, match=problem) as raised:
        verify()
    assert "lock deploy" in str(raised.value)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("DELETE FROM octo_lock", "no such lock"),
        ("UPDATE octo_lock SET fencing_token = fencing_token + 1", "but the lock has token"),
        ("UPDATE octo_lock SET holder_id = 'h_other'", "another holder"),
        ("UPDATE octo_lock SET acquired_at = acquired_at - interval '1 second'", "another time"),
        ("UPDATE octo_lock SET name = 'renamed'", "in the lock table only|no such lock"),
    ],
)
def test_a_lock_table_that_was_changed_behind_the_history_is_reported(
    engine: Engine, change: str, problem: str
) -> None:
    engine.acquire("deploy")
    assert "1 leases" in verify()
    with connection.cursor() as cursor:
        cursor.execute(change)
    with pytest.raises(CommandError, match=problem):
        verify()


@pytest.mark.django_db
def test_an_end_that_was_lost_is_reported(engine: Engine) -> None:
    lease = engine.acquire("deploy")
    Lock.objects.filter(name="deploy").delete()
    Lock.objects.create(space_id=lease.space_id, name="deploy", fencing_token=lease.fencing_token)
    with pytest.raises(CommandError, match="has no end, but the lock is free"):
        verify()


@pytest.mark.usefixtures("committed")
def test_the_history_is_consistent_after_load(engine: Engine) -> None:
    """Claims, releases and takeovers of few names by many threads, with sweeps in between."""

    def work(number: int) -> None:
        for turn in range(60):
            name = f"job-{(number * 7 + turn) % 5}"
            (lease,) = run(acquire([requests.Acquire(digest=engine.digest, name=name, ttl_seconds=1)]))
            if turn % 3 == 0:
                with connection.cursor() as cursor:
                    # Leases in flight jump past their end, as they would after a long pause.
                    cursor.execute(
                        "UPDATE octo_lock SET expires_at = greatest(clock_timestamp(), acquired_at"
                        " + interval '1 microsecond'), next_sweep_at = clock_timestamp()"
                        " WHERE name = %s AND lease_id IS NOT NULL AND expires_at > clock_timestamp()",
                        [name],
                    )
            elif lease.verdict == "acquired" and lease.lease_id is not None:
                run(release([requests.Release(digest=engine.digest, name=name, lease_id=lease.lease_id)]))
            if turn % 10 == 0:
                run(sweep())
        connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "The history is consistent" in verify()
