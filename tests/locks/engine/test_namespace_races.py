"""Two requests for names that overlap, each at the worst moment of the other: never two live leases.

The first one's transaction is kept open, as in test_races.py.
"""

import pytest
from django.db import transaction

from locks.engine.execution import run
from locks.engine.handover import hand_over_free_names
from locks.models import Lock
from tests.locks.engine.concurrent_session import MAX_WAIT, concurrent_session
from tests.locks.engine.test_namespaces import both_orders
from tests.locks.engine.test_waiting import WaitingServer
from tests.locks.engine.time_travel import pass_seconds
from tests.polling import until

pytestmark = pytest.mark.usefixtures("committed")

# Ancestor and descendant, the root, `all` against each rule: in both orders.
PAIRS = both_orders(
    [
        ("path:src", "path:src/a"),
        ("path:", "path:src"),
        ("repo:x", "repo:y"),
        ("repo:x", "path:a"),
        ("repo:x", "issue:1"),
    ]
)
WAYS = ["acquire", "acquire_all", "claim_next"]
FEW_PAIRS = both_orders([("path:src", "path:src/a"), ("repo:x", "issue:1")])
# A lease that must not expire before the test has reached that point.
SOON = 6


@pytest.fixture
def other(committed):
    with concurrent_session() as other:
        yield other


def take(engine, how: str, name: str):
    match how:
        case "acquire":
            return engine.acquire(name).verdict
        case "acquire_all":
            return engine.acquire_all([name, f"plain-{name}"])[0].verdict
    return engine.claim_next([name]).verdict


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_second_waits_for_the_first_and_is_held(engine, other, first, second):
    with transaction.atomic():
        assert engine.acquire(first).verdict == "acquired"
        answer = other.run_blocked(engine.acquire, second)
    assert answer.result(MAX_WAIT).verdict == "held"


@pytest.mark.parametrize(("first_way", "second_way"), [(first, second) for first in WAYS for second in WAYS])
def test_all_ways_to_acquire_wait_for_each_other(engine, other, first_way, second_way):
    """The second name has a row, so that only the guard can make the request wait."""
    engine.release("path:src/a", engine.acquire("path:src/a").lease_id)
    with transaction.atomic():
        assert take(engine, first_way, "path:src") == "acquired"
        answer = other.run_blocked(take, engine, second_way, "path:src/a")
    assert answer.result(MAX_WAIT) == "held"


@pytest.mark.parametrize(("first", "second"), FEW_PAIRS)
def test_the_second_gets_what_the_first_gave_up(engine, other, first, second):
    with transaction.atomic():
        assert engine.acquire(first).verdict == "acquired"
        answer = other.run_blocked(engine.acquire, second)
        transaction.set_rollback(True)
    assert answer.result(MAX_WAIT).verdict == "acquired"


def test_issues_do_not_wait_for_each_other(engine, other):
    with transaction.atomic():
        assert engine.acquire("issue:1").verdict == "acquired"
        answer = other.start(engine.acquire, "issue:2").result(MAX_WAIT)
    assert answer.verdict == "acquired"


def test_plain_names_do_not_wait(engine, other):
    with transaction.atomic():
        assert engine.acquire("repo:x").verdict == "acquired"
        assert other.start(engine.acquire, "deploy").result(MAX_WAIT).verdict == "acquired"
        assert other.start(engine.acquire, "branch:main").result(MAX_WAIT).verdict == "acquired"


@pytest.mark.parametrize(("held", "requested"), FEW_PAIRS)
def test_a_lease_that_is_being_renewed_at_its_end_is_held(engine, other, held, requested):
    """The renewal has read the clock before the expiry and commits after it."""
    lease = engine.acquire(held, ttl_seconds=SOON)
    with transaction.atomic():
        assert engine.renew(held, lease.lease_id, ttl_seconds=60).verdict == "renewed"
        until(lambda: other.now() > lease.expires_at)
        answer = other.run_blocked(engine.acquire, requested)
    assert answer.result(MAX_WAIT).verdict == "held"


@pytest.mark.parametrize(("held", "requested"), FEW_PAIRS)
def test_a_lease_whose_session_is_kept_alive_at_its_end_is_held(engine, other, held, requested):
    session_id = engine.open_session(ttl_seconds=10).session_id
    engine.acquire(held, ttl_seconds=600, session_id=session_id)
    pass_seconds(4)
    with transaction.atomic():
        kept = engine.keep_alive(session_id)
        until(lambda: (kept.expires_at - other.now()).total_seconds() <= 4)
        answer = other.run_blocked(engine.acquire, requested)
    assert answer.result(MAX_WAIT).verdict == "held"


@pytest.mark.parametrize(("waiting", "requested"), FEW_PAIRS)
def test_a_handover_in_progress_is_held(engine, other, waiting, requested):
    server = WaitingServer(engine)
    lease = engine.acquire("path:" if waiting != "path:" and waiting.startswith("path:") else waiting)
    name = Lock.objects.get(lease_id=lease.lease_id).name
    assert server.enqueue(waiting).verdict == "waiting"
    with transaction.atomic():
        engine.release(name, lease.lease_id)
        answer = other.run_blocked(engine.acquire, requested)
    assert answer.result(MAX_WAIT).verdict == "held"
    assert [handed.name for handed in server.claim_handovers()] == [waiting]


@pytest.mark.parametrize(("taken", "waiting"), FEW_PAIRS)
def test_a_handover_that_waited_for_an_acquire_is_not_made(engine, other, taken, waiting):
    """The waiter is not present when the acquire looks, and back when the handover does."""
    server = WaitingServer(engine)
    engine.acquire(waiting, ttl_seconds=10)
    server.enqueue(waiting)
    pass_seconds(20)
    server.stop_heartbeats()
    with transaction.atomic():
        assert engine.acquire(taken).verdict == "acquired"
        returning = WaitingServer(engine)
        other.start(returning.enqueue, waiting).result(MAX_WAIT)
        handover = other.run_until_blocked(run, hand_over_free_names(returning.id))
    handover.result(MAX_WAIT)
    assert returning.claim_handovers() == []
    assert engine.inspect(taken).verdict == "held"
