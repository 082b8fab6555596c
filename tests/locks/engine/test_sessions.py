"""Sessions: a lease that is bound to one ends with the first of both, whether or not the sweep has run."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection

from locks.engine import requests, statements
from locks.engine.execution import run
from locks.engine.maintenance import sweep, sweep_sessions
from locks.engine.operations import count_live, listing
from locks.events.history.verification import verify
from locks.models import Event, Lock, Session, Space, SpaceUsage
from tests.conftest import issue
from tests.locks.engine.conftest import Engine
from tests.locks.engine.plans import explain
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.django_db


@pytest.fixture
def session(engine):
    return engine.open_session(ttl_seconds=30, owner="runner-7").session_id


@pytest.fixture
def dead(engine, session):
    """A session that has expired and was not swept, and a lease bound to it with a TTL of an hour."""
    lease = engine.acquire("deploy", ttl_seconds=3600, session_id=session)
    pass_seconds(31)
    return lease


def happened(name: str = "deploy") -> list[tuple[str, str | None]]:
    return list(Event.objects.filter(lock_name=name).order_by("id").values_list("kind", "reason"))


class TestLifetime:
    def test_a_lease_is_held_while_its_session_is_kept_alive(self, engine, session):
        engine.acquire("deploy", ttl_seconds=3600, session_id=session)
        for _ in range(3):
            pass_seconds(20)
            assert engine.keep_alive(session).verdict == "kept_alive"
        assert engine.inspect("deploy").verdict == "held"

    def test_its_own_expiry_counts_too(self, engine, session):
        engine.acquire("deploy", ttl_seconds=5, session_id=session)
        pass_seconds(6)
        assert engine.inspect("deploy").verdict == "free"
        assert engine.acquire("deploy").verdict == "acquired"
        assert happened() == [("acquired", None), ("expired", None), ("acquired", None)]

    def test_a_lease_that_is_not_ephemeral_outlives_it(self, engine, session):
        engine.acquire("deploy", ttl_seconds=3600, session_id=session, ephemeral=False)
        pass_seconds(31)
        found = engine.inspect("deploy")
        assert (found.verdict, found.session_id_present) == ("held", True)
        assert run(sweep_sessions()) == 1
        assert engine.inspect("deploy").verdict == "held"

    def test_the_holder_is_a_pseudonym_of_token_and_session(self, engine, session):
        other = engine.open_session().session_id
        first, second = engine.acquire("a", session_id=session), engine.acquire("b", session_id=session)
        assert first.holder_id == second.holder_id
        assert (
            len({first.holder_id, engine.acquire("c", session_id=other).holder_id, engine.acquire("d").holder_id}) == 3
        )

    def test_the_owner_is_the_sessions_unless_told_otherwise(self, engine, session):
        assert engine.acquire("a", session_id=session).owner == "runner-7"
        assert engine.acquire("b", session_id=session, owner="step 2").owner == "step 2"

    def test_a_keepalive_never_revives(self, engine, session):
        pass_seconds(31)
        assert engine.keep_alive(session).verdict == "session_over"
        assert engine.acquire("deploy", session_id=session).verdict == "session_over"

    def test_a_session_belongs_to_its_token(self, engine, session, space):
        other = Engine(issue(space, "other", "locks:read", "locks:write"))
        assert other.keep_alive(session).verdict == "no_session"
        assert other.acquire("deploy", session_id=session).verdict == "no_session"
        assert other.end_session(session).verdict == "no_session"
        assert engine.acquire("deploy", session_id=uuid4()).verdict == "no_session"

    def test_one_keepalive_is_one_heap_only_update(self, engine, session):
        for number in range(50):
            engine.acquire(f"job-{number}", session_id=session)
        plan = str(explain(statements.KEEP_ALIVE, [f'[{{"n":0,"digest":"{engine.digest}","session_id":"{session}"}}]']))
        assert "octo_lock" not in plan
        before = Session.objects.get().expires_at
        engine.keep_alive(session)
        after = Session.objects.get()
        assert after.expires_at > before
        # No index knows when a session was kept alive, or until when.
        with connection.cursor() as cursor:
            cursor.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'octo_session'")
            indexed = " ".join(definition for (definition,) in cursor.fetchall())
        assert "expires_at" not in indexed
        assert "last_keepalive_at" not in indexed


class TestEffectiveExpiry:
    """For others it is the earlier of lease and session; the holder gets the expiry of the lease alone."""

    @pytest.fixture
    def bound_lease(self, engine, session):
        return engine.acquire("deploy", ttl_seconds=3600, session_id=session, lock_delay_seconds=5)

    def test_inspect_and_lists_show_the_expiry_of_the_session(self, engine, session, bound_lease):
        ends_at = Session.objects.get(pk=session).expires_at
        assert bound_lease.expires_at > ends_at
        for sort in ("name", "expires_at", "acquired_at"):
            (row,) = run(listing(requests.Listing(digest=engine.digest, sort=sort)))
            assert (row.status, row.expires_at, row.available_at) == ("held", ends_at, ends_at + timedelta(seconds=5))
        assert engine.inspect("deploy").expires_at == ends_at
        assert engine.keep_alive(session).expires_at == engine.inspect("deploy").expires_at > ends_at

    def test_a_force_release_shows_it_too(self, engine, session, bound_lease):
        assert engine.force_release("deploy").expires_at == Session.objects.get(pk=session).expires_at

    def test_a_held_answer_shows_it_too(self, engine, session, bound_lease):
        ends_at = Session.objects.get(pk=session).expires_at
        assert engine.acquire("deploy").expires_at == ends_at
        blocker, _ = engine.acquire_all(["deploy", "other"])
        assert (blocker.expires_at, blocker.available_at) == (ends_at, ends_at + timedelta(seconds=5))

    def test_its_own_expiry_if_that_is_earlier(self, engine, session):
        lease = engine.acquire("deploy", ttl_seconds=20, session_id=session)
        assert engine.inspect("deploy").expires_at == lease.expires_at

    def test_the_list_is_sorted_by_it(self, engine, session, bound_lease):
        engine.acquire("later", ttl_seconds=600)
        engine.acquire("sooner", ttl_seconds=20)
        listed = run(listing(requests.Listing(digest=engine.digest, sort="expires_at")))
        assert [row.name for row in listed] == ["sooner", "deploy", "later"]


class TestRecognition:
    def test_the_same_session_keeps_its_lease_which_is_not_shortened(self, engine, session):
        first = engine.acquire("deploy", ttl_seconds=60, session_id=session, metadata="m")
        again = engine.acquire("deploy", ttl_seconds=10, session_id=session, metadata="other")
        assert (again.verdict, again.lease_id, again.metadata) == ("recognised", first.lease_id, "m")
        assert (again.fencing_token, again.expires_at) == (first.fencing_token, first.expires_at)
        assert engine.acquire("deploy", ttl_seconds=90, session_id=session).expires_at > first.expires_at

    def test_another_session_of_the_same_token_gets_held(self, engine, session):
        engine.acquire("deploy", session_id=session)
        assert engine.acquire("deploy", session_id=engine.open_session().session_id).verdict == "held"
        assert engine.acquire("deploy").verdict == "held"

    def test_acquire_all_of_locks_that_it_holds(self, engine, session):
        first = engine.acquire_all(["a", "b"], session_id=session)
        again = engine.acquire_all(["b", "a"], session_id=session)
        assert {row.verdict for row in again} == {"recognised"}
        assert {row.lease_id for row in again} == {row.lease_id for row in first}

    def test_acquire_all_keeps_its_leases_and_acquires_the_others(self, engine, session):
        first = engine.acquire("a", ttl_seconds=60, session_id=session, metadata="m")
        own, new = engine.acquire_all(["a", "b"], ttl_seconds=90, session_id=session)
        assert (own.verdict, own.lease_id, own.fencing_token) == ("acquired", first.lease_id, first.fencing_token)
        assert (own.metadata, own.acquired_at, new.metadata) == ("m", first.acquired_at, None)
        assert own.expires_at == new.expires_at == Lock.objects.get(name="a").expires_at > first.expires_at
        assert Event.objects.filter(kind="acquired").count() == 2

    def test_acquire_all_neither_shortens_a_lease_nor_exceeds_max_hold(self, engine, session, space):
        first = engine.acquire("a", ttl_seconds=60, session_id=session)
        assert engine.acquire_all(["a", "b"], ttl_seconds=10, session_id=session)[0].expires_at == first.expires_at
        Space.objects.filter(pk=space.pk).update(max_hold_seconds=70)
        own, _ = engine.acquire_all(["a", "b"], ttl_seconds=600, session_id=session)
        assert (own.verdict, own.expires_at) == ("recognised", first.acquired_at + timedelta(seconds=70))

    def test_its_own_locks_do_not_block_it(self, engine, session):
        engine.acquire("a", session_id=session)
        engine.acquire("b", owner="holder")
        rows = engine.acquire_all(["a", "b", "c"], session_id=session)
        assert [(row.verdict, row.is_blocking, row.lease_id) for row in rows] == [
            ("held", False, None), ("held", True, None), ("held", False, None),
        ]  # fmt: skip

    def test_locks_of_another_session_of_the_same_token_block_it(self, engine, session):
        engine.acquire("a", session_id=session)
        rows = engine.acquire_all(["a", "b"], session_id=engine.open_session().session_id)
        assert [(row.verdict, row.is_blocking) for row in rows] == [("held", True), ("held", False)]


class TestExpiredSession:
    """Before any sweep."""

    def test_acquire_takes_over_and_the_history_has_the_reason(self, engine, dead):
        lease = engine.acquire("deploy", owner="next")
        assert (lease.verdict, lease.owner) == ("acquired", "next")
        assert lease.fencing_token > dead.fencing_token
        assert happened() == [("acquired", None), ("expired", "its session expired"), ("acquired", None)]
        ended = Event.objects.get(kind="expired")
        assert (round(ended.held_ms / 1000), ended.actor_name) == (30, "expiry")

    def test_claim_next_and_acquire_all_take_over(self, engine, dead, session):
        assert engine.claim_next(["deploy"]).verdict == "acquired"
        other = engine.open_session(ttl_seconds=30).session_id
        engine.acquire_all(["a", "b"], ttl_seconds=3600, session_id=other)
        pass_seconds(31)
        assert {row.verdict for row in engine.acquire_all(["c", "b", "a"])} == {"acquired"}
        assert happened("a") == [("acquired", None), ("expired", "its session expired"), ("acquired", None)]

    def test_renew_release_and_force_release_find_no_lease(self, engine, dead):
        assert engine.renew("deploy", dead.lease_id).verdict == "not_held"
        assert engine.release("deploy", dead.lease_id).verdict == "not_held"
        assert engine.force_release("deploy").verdict == "not_held"
        assert happened() == [("acquired", None), ("expired", "its session expired")]

    @pytest.mark.parametrize("verb", ["release", "force_release"])
    def test_each_operation_alone(self, engine, dead, verb):
        terms = {"lease_id": dead.lease_id} if verb == "release" else {}
        assert getattr(engine, verb)("deploy", **terms).verdict == "not_held"

    def test_inspect_lists_and_counts_see_it_free(self, engine, dead, space):
        living = engine.open_session().session_id
        engine.acquire("other", session_id=living)
        assert engine.inspect("deploy").verdict == "free"
        for sort in ("name", "expires_at"):
            rows = run(listing(requests.Listing(digest=engine.digest, sort=sort)))
            assert [(row.name, row.total) for row in rows] == [("other", 1)]
        everything = run(listing(requests.Listing(digest=engine.digest, status="all")))
        assert [(row.name, row.status) for row in everything] == [("deploy", "free"), ("other", "held")]
        run(count_live([space.pk]))
        assert SpaceUsage.objects.get().live_locks == 1

    def test_a_delay_counts_from_the_end_of_the_session(self, engine, session):
        engine.acquire("deploy", ttl_seconds=3600, session_id=session, lock_delay_seconds=60)
        pass_seconds(50)
        ended_at = Session.objects.get(pk=session).expires_at
        assert engine.inspect("deploy").verdict == "delayed"
        delayed = engine.acquire("deploy")
        assert (delayed.verdict, delayed.lock_delay_seconds) == ("delayed", 60)
        assert delayed.available_at == ended_at + timedelta(seconds=60)
        assert engine.inspect("deploy").verdict == "delayed"
        pass_seconds(40)
        assert engine.acquire("deploy").verdict == "acquired"

    def test_force_release_of_a_lock_of_an_active_session(self, engine, session):
        lease = engine.acquire("deploy", session_id=session)
        assert (
            engine.force_release("deploy", expected_fencing_token=lease.fencing_token + 1).verdict == "fencing_mismatch"
        )
        forced = engine.force_release("deploy", expected_fencing_token=lease.fencing_token, lock_delay_seconds=5)
        assert (forced.verdict, forced.owner) == ("released", "runner-7")
        assert Event.objects.get(pk=forced.event_id).reason == "stuck"
        assert engine.inspect("deploy").verdict == "delayed"


class TestEndedSession:
    def test_all_its_locks_are_freed_in_one_commit(self, engine, session):
        engine.acquire_all([f"job-{number}" for number in range(20)], session_id=session)
        engine.acquire("recognised", session_id=session, ephemeral=False)
        assert engine.end_session(session).verdict == "ended"
        assert Lock.objects.filter(lease_id__isnull=False).get().name == "recognised"
        released = Event.objects.filter(kind="released")
        assert released.count() == 20
        assert {(event.reason, event.actor_kind, event.actor_name) for event in released} == {
            ("its session was ended", "token", "operator")
        }
        assert engine.end_session(session).verdict == "session_over"
        assert Event.objects.filter(kind="session_ended").count() == 1

    def test_the_history_knows_a_session_by_its_holder_and_never_by_its_id(self, engine, session):
        """The id is a secret: with it a client can act as the holder."""
        held = engine.acquire("deploy", session_id=session)
        engine.end_session(session)
        events = Event.objects.filter(kind__in=["session_opened", "session_ended"])
        assert {event.holder_id for event in events} == {held.holder_id}
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM octo_event WHERE octo_event::text LIKE %s", [f"%{session}%"])
            assert cursor.fetchone() == (0,)

    def test_the_sweep_frees_the_locks_of_an_ended_session_and_records_it_once(self, engine, dead, session):
        assert run(sweep_sessions()) == 1
        assert happened() == [("acquired", None), ("expired", "its session expired")]
        assert Lock.objects.get().lease_id is None
        assert run(sweep_sessions()) == 0
        assert Event.objects.filter(kind="session_expired").count() == 1

    def test_the_sweep_reschedules_active_sessions_to_their_expiry(self, engine, session):
        engine.acquire("deploy", ttl_seconds=3600, session_id=session)
        pass_seconds(20)
        engine.keep_alive(session)
        pass_seconds(20)
        assert (run(sweep_sessions()), run(sweep())) == (0, 0)
        found = Session.objects.get()
        assert found.next_sweep_at == found.expires_at
        pass_seconds(20)
        assert run(sweep_sessions()) == 1

    def test_the_history_is_consistent(self, engine, dead, session):
        living = engine.open_session().session_id
        engine.acquire("a", session_id=living)
        engine.acquire("b", session_id=living)
        engine.release("b", engine.acquire("b", session_id=living).lease_id)
        engine.acquire("deploy", session_id=living)
        engine.end_session(living)
        engine.acquire("a")
        assert run(verify()).contradictions == []
