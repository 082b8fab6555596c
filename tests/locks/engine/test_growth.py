"""What an operation costs does not depend on how many locks there are, and heartbeats stay heap-only.

Cost is counted in pages touched, not in time, so that a busy machine cannot fail a test.
"""

import random
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.db.models.functions import Now

from locks.engine import requests, statements
from locks.engine.execution import run
from locks.engine.operations import renew
from locks.engine.retry import encode
from locks.models import Lock, Session, Token
from tests.locks.engine.conftest import Engine
from tests.locks.engine.many_locks import hold, leave_idle
from tests.locks.engine.plans import assert_page_is_one_index_scan, explain, nodes

pytestmark = pytest.mark.usefixtures("committed")

FEW, MANY = 100, 100_000
SAMPLES = 50


def statistics(columns: str, view: str) -> tuple[int, ...]:
    """What the server has counted up to this moment."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(f"SELECT {columns} FROM {view}")
        return cursor.fetchone()


def pages_touched() -> int:
    """Of all our tables, since a statement also reads the token and writes the history."""
    (pages,) = statistics(
        "sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0))::bigint",
        "pg_statio_user_tables",
    )
    return pages


def updates() -> tuple[int, int]:
    """Of the lock table: all, and those that touched no index."""
    return statistics("n_tup_upd, n_tup_hot_upd", "pg_stat_user_tables WHERE relname = 'octo_lock'")


def vacuum() -> None:
    """What autovacuum does within a minute."""
    connection.cursor().execute("VACUUM ANALYZE octo_lock")


def sample(count: int) -> list[tuple[str, UUID]]:
    names = [f"many/{number:06}" for number in random.sample(range(1, count + 1), SAMPLES)]
    return list(Lock.objects.filter(name__in=names).values_list("name", "lease_id"))


def costs(engine: Engine, count: int) -> dict[str, float]:
    """The pages that each operation touches, on average."""
    some = sample(count)
    verbs = {
        "acquire, held": lambda name, _lease_id: engine.acquire(name).verdict == "held",
        "renew": lambda name, lease_id: engine.renew(name, lease_id).verdict == "renewed",
        "release": lambda name, lease_id: engine.release(name, lease_id).verdict == "released",
        "acquire, free": lambda name, _lease_id: engine.acquire(name, ttl_seconds=3600).verdict == "acquired",
        "acquire, new": lambda name, _lease_id: engine.acquire(f"{name}/{count}").verdict == "acquired",
    }
    pages = {}
    for label, verb in verbs.items():
        before = pages_touched()
        for name, lease_id in some:
            assert verb(name, lease_id)
        pages[label] = (pages_touched() - before) / SAMPLES
    return pages


def assert_the_same(few: dict[str, float], many: dict[str, float]) -> None:
    """Over the life of a lease. The trees of the indexes are a level higher, which single operations may show."""
    assert sum(many.values()) < 1.5 * sum(few.values()), (few, many)


@pytest.mark.long
def test_a_hundred_thousand_locks_cost_no_more_than_a_hundred(engine, space):
    hold(space.pk, FEW)
    vacuum()
    few = costs(engine, FEW)
    hold(space.pk, MANY)
    vacuum()
    assert_the_same(few, costs(engine, MANY))


@pytest.mark.long
def test_a_page_of_a_hundred_thousand_locks_is_one_index_scan(engine, space):
    hold(space.pk, MANY)
    leave_idle(space.pk, 20_000)
    vacuum()
    plan = explain(
        statements.LIST_LOCKS, [engine.digest, "", None, "held", 100, "many/050000", "-infinity", "name", None]
    )
    assert_page_is_one_index_scan(plan, index="lock_held_by_name", rows=100)


def test_statements_planned_for_few_locks_are_right_for_many_at_once(engine, space):
    hold(space.pk, FEW)
    vacuum()
    few = costs(engine, FEW)
    hold(space.pk, 20_000)
    assert_the_same(few, costs(engine, 20_000))


def test_a_token_with_many_sessions_claims_as_cheaply_as_one_with_none(engine, space):
    """With the plan of a time when there were none: a fleet shares one token, and opens its sessions later."""

    def pages(label: str) -> int:
        before = pages_touched()
        for number in range(SAMPLES):
            assert engine.acquire(f"{label}-{number}").verdict == "acquired"
        return pages_touched() - before

    pages("warm")
    without = pages("without")
    (token_id,) = Token.objects.filter(space=space).values_list("pk", flat=True)
    Session.objects.bulk_create(
        Session(
            id=uuid4(), space=space, token_id=token_id, owner="runner-7", ttl_seconds=60, created_at=Now(),
            last_keepalive_at=Now(), expires_at=Now() + timedelta(minutes=1),
        )
        for _ in range(5_000)
    )  # fmt: skip
    assert pages("with") < 1.5 * without


def test_the_shared_functions_are_inlined_into_the_hot_statements(engine):
    """A function that is not would cost a call for each request."""
    lease = engine.acquire("deploy")
    caller = {"digest": engine.digest, "name": "deploy"}
    for statement, request in (
        (statements.ACQUIRE, requests.Acquire(**caller)),
        (statements.RENEW, requests.Renew(**caller, lease_id=lease.lease_id)),
        (statements.INSPECT, requests.Inspect(**caller)),
        (statements.RELEASE, requests.Release(**caller, lease_id=lease.lease_id)),
    ):
        plan = explain(statement, [encode([request])])
        called = {node["Function Name"] for node in nodes(plan) if "Function Name" in node}
        assert called <= {"json_to_recordset"}, statement.name


def test_heartbeats_are_heap_only_updates(engine, space):
    """Old row versions cannot be removed while another transaction is open, as in other tests. So this makes two
    renewals for every five locks, for which the pages have room. `make bench` measures the long run."""
    hold(space.pk, 5_000)
    vacuum()
    batch = [
        requests.Renew(digest=engine.digest, name=name, lease_id=lease_id)
        for name, lease_id in Lock.objects.order_by("?").values_list("name", "lease_id")[:2_000]
    ]
    before, hot_before = updates()
    for start in range(0, 1_000, 100):
        run(renew(batch[start : start + 100]))
    for one in batch[1_000:]:
        run(renew([one]))
    after, hot_after = updates()
    assert after - before == 2_000
    assert hot_after - hot_before >= 0.95 * 2_000
