"""The list of a space's locks, page by page."""

import pytest
from django.db import connection

from locks.engine import requests, statements
from locks.engine.execution import run
from locks.engine.operations import listing
from tests.conftest import issue
from tests.locks.engine.conftest import Engine
from tests.locks.engine.many_locks import hold, leave_idle
from tests.locks.engine.plans import assert_page_is_one_index_scan, explain
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.django_db


def page(engine: Engine, **terms):
    """The page's locks; a page without any is one row that names none."""
    rows = run(listing(requests.Listing(digest=engine.digest, **terms)))
    return [row for row in rows if row.name is not None]


def names(engine: Engine, **terms) -> list[str]:
    return [row.name for row in page(engine, **terms)]


def all_pages(engine: Engine, **terms) -> list[str]:
    listed, after = [], {}
    while rows := page(engine, limit=7, **terms, **after):
        assert len(rows) <= 7
        listed += [row.name for row in rows]
        after = {"after_name": rows[-1].name}
        if terms.get("sort", "name") != "name":
            after["after_time"] = getattr(rows[-1], terms["sort"]).isoformat()
    return listed


def test_held_locks_come_in_the_order_of_their_names(engine):
    engine.acquire_all(["b", "a/b", "Z", "a"])
    assert names(engine) == ["Z", "a", "a/b", "b"]


def test_a_row_has_the_same_fields_as_inspect(engine):
    engine.acquire("deploy", owner="runner", metadata="m")
    (row,) = page(engine)
    lock = engine.inspect("deploy")
    for field in ("name", "fencing_token", "holder_id", "owner", "metadata", "acquired_at", "expires_at"):
        assert getattr(row, field) == getattr(lock, field)
    assert (row.status, row.total, row.waiters) == ("held", 1, 0)


def test_prefix_and_owner_narrow_the_list_and_its_total(engine):
    engine.acquire("ci/a", owner="x")
    engine.acquire("ci/b", owner="y")
    engine.acquire("ci%", owner="x")
    engine.acquire("deploy", owner="x")
    assert names(engine, prefix="ci/") == ["ci/a", "ci/b"]
    assert names(engine, prefix="ci%") == ["ci%"]
    assert names(engine, owner="x") == ["ci%", "ci/a", "deploy"]
    assert names(engine, prefix="ci/", owner="x") == ["ci/a"]
    assert page(engine, prefix="ci/", limit=1)[0].total == 2


def test_free_expired_and_delayed_locks_have_different_states(engine):
    engine.acquire("expired", ttl_seconds=10)
    engine.acquire("expired-delayed", ttl_seconds=10, lock_delay_seconds=60)
    pass_seconds(20)
    for name, delay in (("released", 0), ("released-delayed", 60)):
        lease = engine.acquire(name, lock_delay_seconds=delay)
        engine.release(name, lease.lease_id)
    engine.acquire("held")
    assert names(engine) == ["held"]
    assert names(engine, status="delayed") == ["expired-delayed", "released-delayed"]
    assert [(row.name, row.status) for row in page(engine, status="all")] == [
        ("expired", "free"), ("expired-delayed", "delayed"), ("held", "held"), ("released", "free"),
        ("released-delayed", "delayed"),
    ]  # fmt: skip


@pytest.mark.parametrize("sort", ["name", "expires_at", "acquired_at"])
def test_pages_have_no_gaps_and_no_duplicates(engine, sort):
    # Acquired together, they share their times, so pages must break ties by name.
    crowd = [f"n{number:02}" for number in range(40)]
    for batch in (["d", "b"], crowd, ["a", "c"]):
        engine.acquire_all(batch)
    listed = all_pages(engine, sort=sort)
    if sort == "name":
        assert listed == ["a", "b", "c", "d", *crowd]
    else:
        assert listed == ["b", "d", *crowd, "a", "c"]


def test_a_page_continues_after_the_last_name_even_if_that_lock_is_gone(engine):
    leases = engine.acquire_all(["a", "b", "c", "d"])
    assert names(engine, limit=2) == ["a", "b"]
    engine.release("b", leases[1].lease_id)
    assert names(engine, limit=2, after_name="b") == ["c", "d"]


def test_sorted_by_time_the_first_to_expire_comes_first(engine):
    engine.acquire("late", ttl_seconds=300)
    engine.acquire("soon", ttl_seconds=10)
    assert names(engine, sort="expires_at") == ["soon", "late"]
    assert names(engine, sort="acquired_at") == ["late", "soon"]


@pytest.mark.parametrize("sort", ["name", "expires_at"])
def test_a_token_sees_only_names_within_its_prefixes(engine, space, red_space, sort):
    engine.acquire_all(["ci/a", "ci", "deploy", "db/x"])
    narrow = Engine(issue(space, "narrow", "locks:read", prefixes=["ci/", "db"]))
    assert sorted(names(narrow, sort=sort)) == ["ci/a", "db/x"]
    assert page(narrow, sort=sort)[0].total == 2
    assert names(narrow, prefix="de", sort=sort) == []
    assert names(Engine(issue(red_space, "stranger", "locks:read")), sort=sort) == []


def test_an_empty_page_still_carries_verdict_and_total(engine):
    engine.acquire("a")
    (row,) = run(listing(requests.Listing(digest=engine.digest, after_name="z")))
    assert (row.verdict, row.name, row.total) == ("listed", None, 1)
    (row,) = run(listing(requests.Listing(digest="ab" * 32)))
    assert (row.verdict, row.name) == ("unauthenticated", None)


def test_a_token_without_the_scope_is_refused(space, engine):
    engine.acquire("a")
    writer = Engine(issue(space, "writer", "locks:write"))
    (row,) = run(listing(requests.Listing(digest=writer.digest)))
    assert (row.verdict, row.name, row.total) == ("scope_missing", None, 0)


def test_the_total_is_counted_up_to_ten_thousand_and_one(engine, space):
    hold(space.pk, 9_999)
    assert page(engine, limit=1)[0].total == 9_999
    hold(space.pk, 10_999)
    assert page(engine, limit=1)[0].total == 10_001


@pytest.mark.parametrize("prefix", ["", "many/00"])
def test_a_page_of_held_locks_is_one_index_scan_that_stops_at_its_end(engine, space, prefix):
    hold(space.pk, 5_000)
    leave_idle(space.pk, 20_000)
    connection.cursor().execute("ANALYZE octo_lock")
    plan = explain(
        statements.LIST_LOCKS, [engine.digest, prefix, None, "held", 100, "many/000100", "-infinity", "name", None]
    )
    assert_page_is_one_index_scan(plan, index="lock_held_by_name", rows=100)
