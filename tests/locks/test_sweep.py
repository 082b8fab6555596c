"""The sweep: every expired lease is recorded once and cleared, however many sweeps run; live ones stay."""

import threading

import pytest
from django.db import connection, transaction

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.maintenance import recount_stale, sweep
from locks.engine.operations import acquire
from locks.models import Event, Lock, Space, SpaceUsage
from tests.locks.engine.conftest import Engine
from tests.locks.engine.time_travel import pass_seconds

MANY = 3000


@pytest.fixture
def engine(operator_token: str) -> Engine:
    return Engine(operator_token)


def take_many(engine: Engine, count: int, **options) -> None:
    run(acquire([requests.Acquire(digest=engine.digest, name=f"job-{number}", **options) for number in range(count)]))


@pytest.mark.django_db
def test_an_expired_lease_is_recorded_and_cleared(engine: Engine) -> None:
    lease = engine.acquire("deploy", ttl_seconds=2, owner="runner-7", metadata="build=1842")
    pass_seconds(5)
    assert run(sweep()) == 1
    lock = Lock.objects.get(name="deploy")
    assert (lock.lease_id, lock.owner, lock.next_sweep_at, lock.available_at) == (None, None, None, None)
    assert lock.fencing_token == lease.fencing_token
    event = Event.objects.get(kind="expired")
    assert (event.lock_name, event.owner, event.metadata) == ("deploy", "runner-7", "build=1842")
    assert (event.actor_kind, event.actor_name, event.channel) == ("system", "expiry", "task")
    assert (event.fencing_token, event.holder_id) == (lease.fencing_token, lease.holder_id)
    assert event.held_ms == 2000
    assert 3000 <= event.recorded_late_ms < 60_000


@pytest.mark.django_db
def test_sweeping_again_finds_nothing(engine: Engine) -> None:
    engine.acquire("deploy", ttl_seconds=2)
    pass_seconds(5)
    assert (run(sweep()), run(sweep())) == (1, 0)
    assert Event.objects.filter(kind="expired").count() == 1


@pytest.mark.django_db
def test_a_renewed_lease_stays_and_is_swept_when_it_expires(engine: Engine) -> None:
    lease = engine.acquire("deploy", ttl_seconds=10)
    pass_seconds(8)
    renewed = engine.renew("deploy", lease.lease_id)
    pass_seconds(4)
    assert run(sweep()) == 0
    lock = Lock.objects.get(name="deploy")
    assert lock.lease_id == lease.lease_id
    assert lock.next_sweep_at == lock.expires_at < renewed.expires_at
    pass_seconds(8)
    assert run(sweep()) == 1


@pytest.mark.django_db
def test_a_lease_shortened_by_a_renewal_is_swept_in_time(engine: Engine) -> None:
    lease = engine.acquire("deploy", ttl_seconds=3600)
    engine.renew("deploy", lease.lease_id, ttl_seconds=2)
    pass_seconds(3)
    assert run(sweep()) == 1


@pytest.mark.django_db
def test_the_delay_counts_from_the_expiry_not_from_the_sweep(engine: Engine) -> None:
    lease = engine.acquire("deploy", ttl_seconds=2, lock_delay_seconds=30)
    pass_seconds(12)
    assert run(sweep()) == 1
    lock = Lock.objects.get(name="deploy")
    assert lock.available_at is not None
    assert (lease.expires_at - lock.available_at).total_seconds() == -18
    delayed = engine.acquire("deploy")
    assert (delayed.verdict, delayed.lock_delay_seconds) == ("delayed", 30)
    pass_seconds(20)
    assert engine.acquire("deploy").verdict == "acquired"


@pytest.mark.django_db
def test_a_takeover_leaves_nothing_to_sweep(engine: Engine) -> None:
    engine.acquire("deploy", ttl_seconds=2)
    pass_seconds(3)
    engine.acquire("deploy", ttl_seconds=60)
    assert run(sweep()) == 0
    assert Event.objects.filter(kind="expired").count() == 1


@pytest.mark.django_db
def test_more_leases_than_a_batch_are_all_swept(engine: Engine) -> None:
    take_many(engine, 25, ttl_seconds=1)
    pass_seconds(2)
    assert run(sweep(batch=10)) == 25


@pytest.mark.django_db
def test_an_unused_space_is_recounted(engine: Engine, space: Space) -> None:
    engine.acquire("deploy", ttl_seconds=2)
    SpaceUsage.objects.create(space=space, live_locks=1)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE octo_space_usage SET counted_at = now() - interval '1 minute'")
    pass_seconds(3)
    run(sweep())
    assert run(recount_stale()) == 1
    assert SpaceUsage.objects.get().live_locks == 0


@pytest.mark.usefixtures("committed")
def test_concurrent_sweeps_record_each_expiry_once(engine: Engine) -> None:
    take_many(engine, MANY, ttl_seconds=1)
    pass_seconds(2)
    swept: list[int] = []

    def sweep_in_thread() -> None:
        swept.append(run(sweep(batch=100)))
        connection.close()

    sweeps = [threading.Thread(target=sweep_in_thread) for _ in range(4)]
    for thread in sweeps:
        thread.start()
    for thread in sweeps:
        thread.join()
    # A sweep stops early if all rows of a batch are locked by others; the last one finds the rest.
    swept.append(run(sweep()))
    assert sum(swept) == MANY
    expired = Event.objects.filter(kind="expired").values_list("lock_name", flat=True)
    assert len(expired) == len(set(expired)) == MANY
    assert not Lock.objects.filter(lease_id__isnull=False).exists()


@pytest.mark.usefixtures("committed")
def test_a_sweep_skips_a_locked_row(engine: Engine) -> None:
    take_many(engine, 3, ttl_seconds=1)
    pass_seconds(2)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Lock.objects.select_for_update().get(name="job-1")
            held.set()
            done.wait()
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    assert run(sweep()) == 2
    done.set()
    holder.join()
    assert run(sweep()) == 1
