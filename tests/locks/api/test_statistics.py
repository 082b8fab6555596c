"""Statistics by minute: each event counted once, refusals and renewals counted without a row of their own."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.db.models import Sum

from locks.api import usage_flusher as usage_flusher_module
from locks.api.usage_counters import usage_counters
from locks.api.usage_flusher import UsageFlusher, usage_flusher
from locks.engine.execution import run
from locks.engine.maintenance import sweep
from locks.events.history.histogram import bucket_of, percentile
from locks.events.history.rollup import rollup
from locks.models import Event, StatsContention, StatsHistogram, StatsMinute
from tests.locks.engine.time_travel import pass_seconds
from tests.locks.events.open_transactions import wait_for_open_transactions

FIELDS = ("acquired", "released", "expired", "forced", "renewed", "refused", "waited")


def totals() -> dict[str, int]:
    sums = StatsMinute.objects.aggregate(**{field: Sum(field) for field in FIELDS})
    return {field: value for field, value in sums.items() if value}


@pytest.fixture
def _lively(call) -> None:
    """Two released, one expired, one forced, one renewed twice, three refused."""
    for name in ("a", "b"):
        lease = call("POST", f"/locks/{name}/acquire").json()
        call("POST", f"/locks/{name}/release", {"lease_id": lease["lease_id"]})
    call("POST", "/locks/c/acquire", {"ttl_seconds": 2})
    pass_seconds(3)
    run(sweep())
    call("POST", "/locks/d/acquire")
    call("POST", "/locks/d/force-release", {"reason": "stuck"})
    lease = call("POST", "/locks/e/acquire").json()
    call("POST", "/locks/e/renew", {"lease_id": lease["lease_id"]})
    call("POST", "/locks/renew-all", {"leases": [{"name": "e", "lease_id": lease["lease_id"]}]})
    call("POST", "/locks/e/acquire")
    call("POST", "/locks/claim-next", {"names": ["e"]})
    call("POST", "/locks/acquire-all", {"names": ["e", "f"]})


@pytest.mark.usefixtures("committed", "_lively")
def test_everything_is_counted_once() -> None:
    usage_flusher.flush()
    wait_for_open_transactions()
    run(rollup())
    expected = {"acquired": 5, "released": 2, "expired": 1, "forced": 1, "renewed": 2, "refused": 3}
    assert totals() == expected
    usage_flusher.flush()
    run(rollup())
    assert totals() == expected
    assert StatsHistogram.objects.filter(measure="hold").aggregate(n=Sum("count"))["n"] == 4
    assert StatsContention.objects.filter(name="e").aggregate(n=Sum("refused"))["n"] >= 2


@pytest.mark.usefixtures("committed", "_lively")
def test_rollups_at_once_count_nothing_twice() -> None:
    def roll_up() -> None:
        run(rollup())
        connection.close()

    wait_for_open_transactions()
    rollups = [threading.Thread(target=roll_up) for _ in range(5)]
    for thread in rollups:
        thread.start()
    for thread in rollups:
        thread.join()
    run(rollup())
    assert totals() == {"acquired": 5, "released": 2, "expired": 1, "forced": 1}


@pytest.mark.usefixtures("committed")
def test_an_event_that_commits_late_is_counted_after_all(call, space) -> None:
    written, done = threading.Event(), threading.Event()

    def late() -> None:
        with transaction.atomic():
            Event.objects.create(
                kind="acquired", space_id=space.pk, lock_name="late", actor_kind="token", actor_name="t", channel="api"
            )
            written.set()
            done.wait()
        connection.close()

    writer = threading.Thread(target=late)
    writer.start()
    written.wait()
    call("POST", "/locks/prompt/acquire")
    run(rollup())
    assert totals() == {}
    done.set()
    writer.join()
    wait_for_open_transactions()
    run(rollup())
    assert totals() == {"acquired": 2}


@pytest.mark.django_db
def test_a_refusal_writes_nothing_until_the_flush(call) -> None:
    call("POST", "/locks/a/acquire")
    for _ in range(50):
        call("POST", "/locks/a/acquire")
    assert not StatsMinute.objects.exists()
    usage_flusher.flush()
    assert totals() == {"refused": 50}
    assert StatsContention.objects.aggregate(n=Sum("refused"))["n"] == 50
    assert Event.objects.filter(kind="acquired").count() == 1


@pytest.mark.django_db
def test_reading_a_held_lock_is_no_refusal(call) -> None:
    call("POST", "/locks/a/acquire")
    call("GET", "/locks/a")
    call("GET", "/locks")
    usage_flusher.flush()
    assert totals() == {}


@pytest.mark.django_db
def test_waits_are_counted_with_their_length(space) -> None:
    now = datetime.now(UTC)
    for milliseconds in (10, 10, 1000):
        usage_counters.count_wait(space_id=space.pk, now=now, milliseconds=milliseconds)
    usage_flusher.flush()
    assert totals() == {"waited": 3}
    buckets = dict(StatsHistogram.objects.filter(measure="wait").values_list("bucket", "count"))
    assert buckets == {bucket_of(10): 2, bucket_of(1000): 1}


@pytest.mark.django_db
def test_waits_and_refusals_of_a_name_add_up(call, space) -> None:
    call("POST", "/locks/a/acquire")
    call("POST", "/locks/a/acquire")
    now = datetime.now(UTC)
    for milliseconds in (10, 1000):
        usage_counters.count_wait(space_id=space.pk, now=now, milliseconds=milliseconds, name="a")
    usage_flusher.flush()
    row = StatsContention.objects.filter(name="a").aggregate(
        refused=Sum("refused"), waited=Sum("waited"), waited_ms=Sum("waited_ms")
    )
    assert row == {"refused": 1, "waited": 2, "waited_ms": 1010}


@pytest.mark.usefixtures("committed")
def test_the_database_makes_the_same_buckets(space) -> None:
    durations = [0, 1, 2, 3, 4, 8, 16, 100, 1000, 1024, 86_400_000]
    for held_ms in durations:
        Event.objects.create(
            kind="released", space_id=space.pk, lock_name="a", held_ms=held_ms, actor_kind="token", actor_name="t",
            channel="api",
        )  # fmt: skip
    wait_for_open_transactions()
    run(rollup())
    buckets = StatsHistogram.objects.values_list("bucket").annotate(n=Sum("count")).values_list("bucket", "n")
    expected: dict[int, int] = {}
    for held_ms in durations:
        expected[bucket_of(held_ms)] = expected.get(bucket_of(held_ms), 0) + 1
    assert dict(buckets) == expected


def test_a_percentile_is_right_to_within_a_tenth() -> None:
    counts: dict[int, int] = {}
    for milliseconds in range(1, 10_001):
        counts[bucket_of(milliseconds)] = counts.get(bucket_of(milliseconds), 0) + 1
    for share in (0.5, 0.9, 0.99):
        assert percentile(counts, share) == pytest.approx(share * 10_000, rel=0.1)
    assert percentile({}, 0.5) is None
    assert timedelta(milliseconds=percentile({0: 1}, 1.0) or 0) < timedelta(milliseconds=2)


def test_an_unforeseen_error_does_not_end_the_thread_that_writes_usage(monkeypatch) -> None:
    class FailsOnce(UsageFlusher):
        flushes = 0
        flushed_again = threading.Event()

        def flush(self) -> None:
            self.flushes += 1
            if self.flushes == 1:
                raise ZeroDivisionError
            self.flushed_again.set()
            # The thread must not touch the database after the test.
            threading.Event().wait()

    monkeypatch.setattr(usage_flusher_module, "FLUSH_SECONDS", 0.01)
    flusher = FailsOnce()
    flusher.start()
    assert flusher.flushed_again.wait(20)


def test_a_token_that_is_used_from_many_addresses_does_not_displace_others():
    flusher = UsageFlusher()
    for number in range(600):
        flusher.record(digest=b"many", space_id=1, address=f"2001:db8::{number:x}", agent="")
    flusher.record(digest=b"one", space_id=2, address="192.0.2.1", agent="")
    assert [digest for digest, _ in flusher._uses] == [b"many"] * 10 + [b"one"]
