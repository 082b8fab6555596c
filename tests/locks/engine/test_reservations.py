"""A lease that a person has is like any other, except that it has no token and is not renewed."""

import pytest
from django.db import connection, transaction

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.maintenance import sweep
from locks.engine.operations import set_acl
from locks.events.history.hold_baselines import compute_hold_baselines
from locks.events.history.verification import verify
from locks.models import Event, Lock
from locks.services import reservations
from locks.services.audit import Actor
from locks.services.stuck import find_stuck
from tests.locks.engine.concurrent_session import MAX_WAIT, concurrent_session
from tests.locks.engine.conftest import Engine
from tests.locks.engine.test_freezes import freeze
from tests.locks.engine.test_waiting import WaitingServer
from tests.locks.engine.time_travel import pass_seconds


class Person:
    """A user with the space in which the locks are."""

    def __init__(self, user, space):
        self.user, self.space, self.actor = user, space, Actor.of_user(user)

    def reserve(self, name="deploy", *, seconds=3600, reason="migration"):
        return reservations.reserve(actor=self.actor, space=self.space, name=name, reason=reason, seconds=seconds)

    def extend(self, lease, *, seconds):
        return reservations.extend(
            actor=self.actor, space=self.space, name=lease.name, fencing_token=lease.fencing_token, seconds=seconds
        )

    def hand_over(self, lease, to):
        return reservations.hand_over(
            actor=self.actor, space=self.space, name=lease.name, fencing_token=lease.fencing_token, to=to.user
        )

    def release(self, lease):
        return reservations.release(
            actor=self.actor, space=self.space, name=lease.name, fencing_token=lease.fencing_token, user=self.user
        )


@pytest.fixture
def olga(olga, space) -> Person:
    return Person(olga, space)


@pytest.fixture
def alice(alice, space) -> Person:
    return Person(alice, space)


def events(name: str = "deploy") -> list[tuple[str, str, str]]:
    found = Event.objects.filter(lock_name=name).order_by("id")
    return [(event.kind, event.owner, f"{event.actor_kind} {event.actor_name}") for event in found]


@pytest.mark.django_db
class TestReserve:
    def test_workers_see_that_it_is_held_by_whom_and_why(self, olga, engine):
        lease = olga.reserve()
        refused = engine.acquire("deploy")
        assert (lease.verdict, refused.verdict) == ("acquired", "held")
        assert (refused.owner, refused.metadata, refused.fencing_token) == ("olga", "migration", lease.fencing_token)
        assert Lock.objects.get(name="deploy").token is None
        assert events() == [("acquired", "olga", "user olga")]

    def test_a_lock_that_is_held_is_not_taken_and_asking_again_is_held(self, olga, alice, engine):
        engine.acquire("deploy")
        assert olga.reserve().verdict == "held"
        assert olga.reserve("other").verdict == "acquired"
        assert [olga.reserve("other").verdict, alice.reserve("other").verdict] == ["held", "held"]

    def test_not_by_the_token_rule_of_octostore_either(self, olga, engine, space):
        space.octostore_compatibility = True
        space.save()
        olga.reserve()
        assert [olga.reserve().verdict, engine.acquire("deploy").verdict] == ["held", "held"]

    def test_the_limits_of_the_space_hold(self, olga, space):
        space.max_ttl_seconds, space.default_ttl_seconds, space.max_metadata_length = 600, 60, 5
        space.save()
        assert olga.reserve(reason="short", seconds=601).verdict == "ttl_too_long"
        assert olga.reserve(reason="longer", seconds=600).verdict == "metadata_too_long"
        assert olga.reserve(reason="short", seconds=600).verdict == "acquired"

    def test_a_frozen_name_is_not_reserved_and_a_namespace_has_its_rule(self, olga, engine, space):
        engine.acquire("path:src/auth.rs")
        assert olga.reserve("path:src").verdict == "held"
        freeze(space)
        assert olga.reserve("free").verdict == "delayed"

    def test_waiters_come_first(self, olga, engine, space):
        lease = engine.acquire("deploy", ttl_seconds=10)
        server = WaitingServer(engine)
        server.enqueue(owner="waiter")
        pass_seconds(11)
        assert olga.reserve().verdict == "held"
        assert [handed.owner for handed in server.claim_handovers()] == ["waiter"]
        assert lease.fencing_token < Lock.objects.get().fencing_token

    def test_no_worker_can_renew_or_release_it_even_with_its_lease_id(self, olga, engine):
        olga.reserve()
        lease_id = Lock.objects.get().lease_id
        assert engine.renew("deploy", lease_id).verdict == "held_by_another"
        assert engine.release("deploy", lease_id).verdict == "held_by_another"

    def test_it_expires_and_can_be_force_released(self, olga, engine):
        olga.reserve(seconds=60)
        pass_seconds(61)
        run(sweep())
        olga.reserve(seconds=60)
        assert engine.force_release("deploy").verdict == "released"
        assert [kind for kind, *_ in events()] == ["acquired", "expired", "acquired", "force_released"]

    def test_it_is_never_late_nor_expiring_nor_longer_than_usual(self, olga, engine, space):
        for _ in range(6):
            engine.release("deploy", engine.acquire("deploy").lease_id)
        olga.reserve(seconds=7200)
        pass_seconds(7195)
        run(compute_hold_baselines())
        with connection.cursor() as cursor:
            cursor.execute("SELECT id, state, is_heartbeating, is_reserved FROM octo_lock_row_v2")
            ((lock_id, *shown),) = cursor.fetchall()
        assert shown == ["held", True, True]
        assert find_stuck(space=space, lock_ids=[lock_id]) == {}


@pytest.mark.django_db
class TestChange:
    def test_extending_adds_time_to_the_same_lease_and_is_in_the_history(self, olga):
        lease = olga.reserve(seconds=600)
        more = olga.extend(lease, seconds=600)
        assert (more.verdict, more.fencing_token) == ("renewed", lease.fencing_token)
        assert (more.expires_at - lease.expires_at).total_seconds() == 600
        assert events()[-1] == ("extended", "olga", "user olga")

    def test_an_extension_ends_where_the_limits_of_the_space_do(self, olga, space):
        space.max_ttl_seconds, space.max_hold_seconds = 3600, 3600
        space.save()
        lease = olga.reserve(seconds=1800)
        more = olga.extend(lease, seconds=86_400)
        assert (more.expires_at - lease.acquired_at).total_seconds() == 3600
        assert olga.extend(lease, seconds=60).verdict == "max_hold_reached"

    def test_a_colleague_gets_a_new_lease_with_the_same_end(self, olga, alice):
        lease = olga.reserve()
        handed = olga.hand_over(lease, alice)
        assert (handed.verdict, handed.owner, handed.expires_at) == ("acquired", "alice", lease.expires_at)
        assert handed.fencing_token > lease.fencing_token
        assert [olga.release(handed), olga.extend(handed, seconds=60).verdict] == ["held_by_another"] * 2
        assert alice.release(handed) == "released"
        assert events() == [
            ("acquired", "olga", "user olga"), ("released", "olga", "user olga"), ("acquired", "alice", "user olga"),
            ("released", "alice", "user alice"),
        ]  # fmt: skip
        assert run(verify()).contradictions == []

    def test_waiters_are_served_when_it_is_released_and_not_when_it_is_handed_over(self, olga, alice, engine):
        lease = olga.reserve()
        server = WaitingServer(engine)
        server.enqueue(owner="waiter")
        handed = olga.hand_over(lease, alice)
        assert server.claim_handovers() == []
        alice.release(handed)
        assert [row.owner for row in server.claim_handovers()] == ["waiter"]

    def test_it_goes_on_while_the_name_is_frozen(self, olga, alice, space):
        lease = olga.reserve()
        freeze(space)
        assert olga.extend(lease, seconds=60).verdict == "renewed"
        handed = olga.hand_over(lease, alice)
        assert (handed.verdict, alice.release(handed)) == ("acquired", "released")

    @pytest.mark.parametrize("change", ["extend", "hand_over", "release"])
    def test_only_the_person_who_has_it_changes_it_and_only_that_lease(self, olga, alice, engine, change):
        def verdict(person, lease):
            arguments = {"extend": {"seconds": 60}, "hand_over": {"to": alice}, "release": {}}[change]
            result = getattr(person, change)(lease, **arguments)
            return result if change == "release" else result.verdict

        theirs = engine.acquire("theirs")
        assert verdict(olga, theirs) == "held_by_another"
        lease = olga.reserve()
        assert verdict(alice, lease) == "held_by_another"
        olga.release(lease)
        assert verdict(olga, lease) == "not_held"
        olga.reserve()
        assert verdict(olga, lease) in ("fencing_mismatch", "held_by_another")
        assert Lock.objects.filter(name="deploy", lease_id__isnull=False, owner="olga").exists()


@pytest.mark.usefixtures("committed")
class TestRaces:
    def test_of_two_persons_one_reserves_a_name_that_was_never_used(self, olga, alice):
        with concurrent_session() as other:
            with transaction.atomic():
                assert olga.reserve().verdict == "acquired"
                second = other.run_blocked(alice.reserve)
            assert second.result(MAX_WAIT).verdict == "held"

    def test_a_force_release_meanwhile_ends_what_is_handed_over(self, olga, alice, engine):
        lease = olga.reserve()
        with concurrent_session() as other:
            with transaction.atomic():
                engine.force_release("deploy", expected_fencing_token=lease.fencing_token)
                handing = other.run_blocked(olga.hand_over, lease, alice)
            assert handing.result(MAX_WAIT).verdict == "not_held"
        assert Lock.objects.get().lease_id is None


@pytest.mark.django_db
def test_a_token_cannot_change_the_access_list_of_a_reserved_lock(olga, worker_token):
    olga.reserve()
    request = requests.SetAcl(digest=Engine(worker_token).digest, name="deploy", acl=["ci"])
    assert run(set_acl(request)).verdict == "not_permitted"
    assert not Event.objects.filter(kind="acl_changed").exists()
