"""Sessions at the moment they end: a keepalive and a statement that ends the session agree which was first."""

import pytest
from django.db import connection, transaction

from locks.engine import requests
from locks.engine.execution import Unavailable, run
from locks.engine.maintenance import sweep_sessions
from locks.engine.operations import acquire
from locks.events.history.verification import verify
from locks.models import Event, Lock, Session
from tests.locks.engine.concurrent_session import MAX_WAIT, concurrent_session
from tests.locks.engine.test_waiting import WaitingServer
from tests.locks.engine.time_travel import pass_seconds
from tests.polling import until

pytestmark = pytest.mark.usefixtures("committed")

LEFT = 6


@pytest.fixture
def other(committed):
    with concurrent_session() as other:
        yield other


@pytest.fixture
def session(engine):
    """About to end: as much is left of it as the test may need until then."""
    session_id = engine.open_session(ttl_seconds=60, owner="first").session_id
    engine.acquire("deploy", ttl_seconds=3600, session_id=session_id)
    engine.acquire("other", ttl_seconds=3600, session_id=session_id)
    pass_seconds(60 - LEFT)
    return session_id


@pytest.fixture
def living(engine):
    session_id = engine.open_session(owner="first").session_id
    engine.acquire_all(["deploy", "other"], session_id=session_id)
    return session_id


def wait_until_over(session, other) -> None:
    expires_at = Session.objects.get(pk=session).expires_at
    until(lambda: other.now() > expires_at)


def test_acquire_all_of_a_session_while_it_acquires_one_of_the_names(engine, other):
    session = engine.open_session().session_id
    engine.release("deploy", engine.acquire("deploy").lease_id)
    with transaction.atomic():
        first = engine.acquire("deploy", session_id=session)
        asks = other.run_blocked(engine.acquire_all, ["deploy", "new"], session_id=session)
    own, new = asks.result(MAX_WAIT)
    assert (own.verdict, own.lease_id, new.verdict) == ("acquired", first.lease_id, "acquired")


def test_a_keepalive_in_progress_counts(engine, other, session):
    wait_for = Session.objects.get(pk=session).expires_at
    with transaction.atomic():
        assert engine.keep_alive(session).verdict == "kept_alive"
        until(lambda: other.now() > wait_for)
        # Every snapshot shows the session as over; only a statement that waits for the keepalive sees that it is not.
        second = other.run_blocked(engine.acquire, "deploy", owner="second")
    answer = second.result(MAX_WAIT)
    assert (answer.verdict, answer.owner) == ("held", "first")


def test_a_keepalive_that_was_rolled_back_does_not_count(engine, other, session):
    wait_for = Session.objects.get(pk=session).expires_at
    with transaction.atomic():
        engine.keep_alive(session)
        until(lambda: other.now() > wait_for)
        second = other.run_blocked(engine.acquire, "deploy", owner="second")
        transaction.set_rollback(True)
    assert second.result(MAX_WAIT).owner == "second"


def test_a_keepalive_does_not_revive_a_session_that_was_found_over(engine, other, session):
    """It began in time, and would have been in time without the wait; but its lock has another holder by then."""
    pass_seconds(LEFT)
    with transaction.atomic():
        assert engine.acquire("deploy", owner="second").verdict == "acquired"
        late = other.run_blocked(engine.keep_alive, session)
    assert late.result(MAX_WAIT).verdict == "session_over"
    assert engine.inspect("other").verdict == "free"


def test_a_keepalive_that_waited_past_the_end_is_too_late(engine, other, session):
    with transaction.atomic():
        Session.objects.select_for_update(no_key=True).get(pk=session)
        late = other.run_blocked(engine.keep_alive, session)
        wait_until_over(session, other)
    assert late.result(MAX_WAIT).verdict == "session_over"


def test_keepalives_do_not_block_an_acquire_with_the_session(engine, other, living):
    with transaction.atomic():
        engine.keep_alive(living)
        got = other.start(engine.acquire, "third", session_id=living).result(MAX_WAIT)
    assert got.verdict == "acquired"


def test_ending_a_session_during_an_acquire(engine, other, living):
    """Whichever comes first, nothing of an ended session is alive, and the sweep finds what was left."""
    engine.release("third", engine.acquire("third").lease_id)
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="third")
        late = other.run_blocked(engine.acquire, "third", session_id=living, ttl_seconds=60)
        with concurrent_session() as another:
            assert another.start(engine.end_session, living).result(MAX_WAIT).verdict == "ended"
    late.result(MAX_WAIT)
    assert engine.inspect("third").verdict == "free"
    assert engine.acquire("third").verdict == "acquired"
    assert run(verify()).contradictions == []


def test_ending_a_session_and_acquiring_its_lock_record_the_end_once(engine, other, living):
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="deploy")
        ending = other.run_blocked(engine.end_session, living)
        # Nothing of it is over as long as not everything is.
        assert engine.acquire("other", owner="second").verdict == "held"
        assert engine.keep_alive(living).verdict == "kept_alive"
    assert ending.result(MAX_WAIT).verdict == "ended"
    assert engine.acquire("other", owner="second").verdict == "acquired"
    for name in ("deploy", "other"):
        assert Event.objects.filter(lock_name=name, kind="released").count() == 1
    assert run(verify()).contradictions == []


def test_ending_a_session_that_is_killed_halfway_changes_nothing(engine, other, living):
    """It has the first lock already and waits for the second."""
    waiting = WaitingServer(engine)
    waiting.enqueue("deploy", owner="next")
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="other")
        ending = other.run_blocked(engine.end_session, living)
        other.end(*other.waiting())
    assert isinstance(ending.exception(MAX_WAIT), Unavailable)
    assert engine.keep_alive(living).verdict == "kept_alive"
    assert {engine.inspect(name).owner for name in ("deploy", "other")} == {"first"}
    assert not Event.objects.filter(kind__in=["released", "session_ended"]).exists()
    assert engine.end_session(living).verdict == "ended"
    assert [handed.owner for handed in waiting.claim_handovers()] == ["next"]
    assert engine.inspect("other").verdict == "free"


@pytest.mark.parametrize("ends", ["ended", "expires"])
def test_all_locks_of_a_session_end_in_one_commit(engine, living, ends):
    if ends == "ended":
        engine.end_session(living)
    else:
        pass_seconds(61)
        run(sweep_sessions())
    kinds = ("released", "session_ended") if ends == "ended" else ("expired", "session_expired")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT array_agg(kind || coalesce(' ' || lock_name, '') ORDER BY id) FROM octo_event"
            " WHERE kind = ANY (%s) GROUP BY txid",
            [list(kinds)],
        )
        commits = [recorded for (recorded,) in cursor.fetchall()]
    assert commits == [[kinds[1], f"{kinds[0]} deploy", f"{kinds[0]} other"]]


def test_a_lock_that_another_session_acquired_meanwhile_is_not_ended(engine, other, living):
    """The statement waits for its row, which is then bound to another session."""
    theirs = engine.open_session(owner="second").session_id
    with transaction.atomic():
        engine.force_release("deploy")
        assert engine.acquire("deploy", session_id=theirs).verdict == "acquired"
        ending = other.run_blocked(engine.end_session, living)
    assert ending.result(MAX_WAIT).verdict == "ended"
    assert engine.inspect("deploy").owner == "second"
    assert engine.inspect("other").verdict == "free"
    assert run(verify()).contradictions == []


def test_a_batch_with_locks_of_ended_and_active_sessions(engine, session):
    living = engine.open_session().session_id
    engine.acquire("living", session_id=living)
    pass_seconds(LEFT)
    batch = [
        requests.Acquire(digest=engine.digest, name=name) for name in ("deploy", "living", "other", "deploy", "new")
    ]
    answers = run(acquire(batch))
    assert [answer.verdict for answer in answers] == ["acquired", "held", "acquired", "held", "acquired"]


def test_two_sweeps_at_once_free_each_lock_once(engine, other, session):
    pass_seconds(LEFT)
    first = other.start(lambda: run(sweep_sessions()))
    run(sweep_sessions())
    first.result(MAX_WAIT)
    run(sweep_sessions())
    assert Event.objects.filter(kind="expired").count() == 2
    assert run(verify()).contradictions == []
