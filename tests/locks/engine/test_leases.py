"""A single lease, from acquire to its end."""

import time
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models.functions import Now

from locks.engine import maintenance
from locks.engine.execution import run
from locks.models import Event, Lock, Session, Space, SpaceUsage, Token
from locks.services import tokens
from locks.services.audit import Actor
from tests.conftest import issue
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.django_db


def kinds(name: str) -> list[str]:
    return list(Event.objects.filter(lock_name=name).order_by("id").values_list("kind", flat=True))


def rotate(space: Space, name: str) -> str:
    """The old token stays valid for a minute."""
    token = Token.objects.get(space=space, name=name, rotated_at=None)
    plaintext, _new = tokens.rotate(actor=Actor.of_shell(), token=token, overlap=timedelta(minutes=1))
    return plaintext


def test_a_free_name_is_acquired(engine):
    lease = engine.acquire("deploy-main", ttl_seconds=60, metadata="host=runner-7", owner="runner-7")
    assert lease.verdict == "acquired"
    assert (lease.owner, lease.metadata) == ("runner-7", "host=runner-7")
    assert lease.expires_at - lease.acquired_at == timedelta(seconds=60)
    assert kinds("deploy-main") == ["acquired"]


def test_the_owner_is_the_tokens_name_when_absent_and_the_ttl_the_spaces(engine, space):
    lease = engine.acquire("deploy-main")
    assert lease.owner == "operator"
    assert lease.expires_at - lease.acquired_at == timedelta(seconds=space.default_ttl_seconds)


def test_a_second_acquire_is_held_even_with_the_same_token(engine):
    first = engine.acquire("deploy-main", metadata="a")
    second = engine.acquire("deploy-main", metadata="a")
    assert second.verdict == "held"
    assert second.lease_id is None
    assert (second.fencing_token, second.metadata) == (first.fencing_token, "a")
    assert kinds("deploy-main") == ["acquired"]


def test_an_expired_lease_is_taken_over_and_its_end_recorded_first(engine):
    old = engine.acquire("deploy-main", ttl_seconds=1, owner="old")
    time.sleep(1.05)
    new = engine.acquire("deploy-main", owner="new")
    assert new.verdict == "acquired"
    assert new.fencing_token > old.fencing_token
    assert kinds("deploy-main") == ["acquired", "expired", "acquired"]
    expired = Event.objects.get(kind="expired")
    assert (expired.owner, expired.fencing_token, expired.held_ms) == ("old", old.fencing_token, 1000)
    assert expired.recorded_late_ms >= 50
    assert expired.actor_kind == "system"


def test_renew_sets_the_expiry_from_now(engine):
    lease = engine.acquire("deploy-main", ttl_seconds=60)
    renewed = engine.renew("deploy-main", lease.lease_id, ttl_seconds=120)
    assert renewed.verdict == "renewed"
    assert renewed.fencing_token == lease.fencing_token
    assert timedelta(seconds=119) < renewed.expires_at - renewed.now <= timedelta(seconds=120)


def test_renew_without_ttl_uses_the_ttl_of_the_lease(engine):
    lease = engine.acquire("deploy-main", ttl_seconds=300)
    renewed = engine.renew("deploy-main", lease.lease_id)
    assert renewed.expires_at > lease.expires_at


def test_renewing_with_a_shorter_ttl_moves_the_sweep_timer(engine):
    lease = engine.acquire("deploy-main", ttl_seconds=300)
    renewed = engine.renew("deploy-main", lease.lease_id, ttl_seconds=5)
    assert Lock.objects.get(name="deploy-main").next_sweep_at == renewed.expires_at


def test_an_expired_lease_is_never_revived(engine):
    lease = engine.acquire("deploy-main", ttl_seconds=1)
    time.sleep(1.05)
    assert engine.renew("deploy-main", lease.lease_id).verdict == "not_held"
    assert engine.release("deploy-main", lease.lease_id).verdict == "not_held"
    assert engine.inspect("deploy-main").verdict == "free"


def test_another_lease_and_no_lease_have_different_verdicts(engine):
    assert engine.renew("deploy-main", uuid4()).verdict == "not_held"
    engine.acquire("deploy-main")
    assert engine.renew("deploy-main", uuid4()).verdict == "held_by_another"
    assert engine.release("deploy-main", uuid4()).verdict == "held_by_another"


def test_release_frees_at_once_and_only_once(engine):
    lease = engine.acquire("deploy-main")
    assert engine.release("deploy-main", lease.lease_id).verdict == "released"
    assert engine.release("deploy-main", lease.lease_id).verdict == "not_held"
    assert kinds("deploy-main") == ["acquired", "released"]
    again = engine.acquire("deploy-main")
    assert again.verdict == "acquired"
    assert again.fencing_token > lease.fencing_token


def test_fencing_tokens_rise_even_when_the_row_was_removed(engine):
    lease = engine.acquire("deploy-main")
    engine.release("deploy-main", lease.lease_id)
    Lock.objects.filter(name="deploy-main").delete()
    time.sleep(0.002)
    assert engine.acquire("deploy-main").fencing_token > lease.fencing_token


def test_fencing_tokens_rise_when_the_clock_is_behind_the_row(engine):
    lease = engine.acquire("deploy-main")
    engine.release("deploy-main", lease.lease_id)
    ahead = lease.fencing_token + 3_600_000
    Lock.objects.filter(name="deploy-main").update(fencing_token=ahead)
    assert engine.acquire("deploy-main").fencing_token == ahead + 1


def test_a_name_is_delayed_after_release(engine):
    lease = engine.acquire("deploy-main", lock_delay_seconds=30)
    engine.release("deploy-main", lease.lease_id)
    refused = engine.acquire("deploy-main")
    assert refused.verdict == "delayed"
    assert lease.now + timedelta(seconds=30) < refused.available_at < refused.now + timedelta(seconds=30)
    assert engine.inspect("deploy-main").verdict == "delayed"


def test_a_delay_follows_expiry_too_counted_from_the_expiry(engine):
    lease = engine.acquire("deploy-main", ttl_seconds=60, lock_delay_seconds=60)
    pass_seconds(61)
    refused = engine.acquire("deploy-main")
    assert refused.verdict == "delayed"
    assert refused.available_at == lease.expires_at + timedelta(seconds=60 - 61)
    pass_seconds(60)
    assert engine.acquire("deploy-main").verdict == "acquired"
    assert kinds("deploy-main") == ["acquired", "expired", "acquired"]


def test_force_release_with_the_expected_fencing_token(engine):
    lease = engine.acquire("deploy-main", owner="runner-7", metadata="m")
    refused = engine.force_release("deploy-main", expected_fencing_token=lease.fencing_token - 1)
    assert refused.verdict == "fencing_mismatch"
    done = engine.force_release("deploy-main", expected_fencing_token=lease.fencing_token, reason="host is gone")
    assert done.verdict == "released"
    assert (done.owner, done.metadata, done.fencing_token) == ("runner-7", "m", lease.fencing_token)
    event = Event.objects.get(pk=done.event_id)
    assert (event.kind, event.reason, event.owner) == ("force_released", "host is gone", "runner-7")
    assert engine.renew("deploy-main", lease.lease_id).verdict == "not_held"
    assert engine.force_release("deploy-main").verdict == "not_held"


def test_force_release_can_set_a_lock_delay(engine):
    engine.acquire("deploy-main")
    engine.force_release("deploy-main", lock_delay_seconds=20)
    assert engine.acquire("deploy-main").verdict == "delayed"


def test_a_user_force_releases_by_space(engine, space, olga):
    from locks.engine import requests
    from locks.engine.execution import run
    from locks.engine.operations import force_release

    engine.acquire("deploy-main")
    request = requests.ForceRelease(
        digest=None, space_id=space.pk, actor_id=olga.pk, actor_name="olga", name="deploy-main", reason="stuck",
        channel="web",
    )  # fmt: skip
    (done,) = run(force_release([request]))
    event = Event.objects.get(pk=done.event_id)
    assert (event.actor_kind, event.actor_id, event.actor_name) == ("user", olga.pk, "olga")
    assert (event.channel, event.team_id) == ("web", space.team_id)


class TestRecognition:
    def test_an_idempotency_key_brings_the_same_lease_back(self, engine):
        terms = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
        first = engine.acquire("deploy-main", ttl_seconds=60, **terms)
        retry = engine.acquire("deploy-main", ttl_seconds=60, **terms)
        assert retry.verdict == "recognised"
        assert (retry.lease_id, retry.fencing_token) == (first.lease_id, first.fencing_token)
        assert retry.expires_at >= first.expires_at
        assert kinds("deploy-main") == ["acquired"]

    def test_a_reused_key_with_another_body_is_refused(self, engine):
        engine.acquire("deploy-main", idempotency_digest="aa" * 32, request_digest="bb" * 32)
        other = engine.acquire("deploy-main", idempotency_digest="aa" * 32, request_digest="cc" * 32)
        assert other.verdict == "idempotency_conflict"
        assert other.lease_id is None

    def test_another_token_with_the_same_key_is_not_recognised(self, engine, worker_token):
        terms = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
        engine.acquire("deploy-main", **terms)
        assert type(engine)(worker_token).acquire("deploy-main", **terms).verdict == "held"

    def test_with_octostore_compatibility_the_token_is_the_holder_of_a_plain_lock(self, engine, space, worker_token):
        Space.objects.filter(pk=space.pk).update(octostore_compatibility=True)
        first = engine.acquire("deploy-main", metadata="runner=7", ttl_seconds=60)
        again = engine.acquire("deploy-main", metadata="runner=8", ttl_seconds=1)
        assert (again.verdict, again.lease_id, again.metadata) == ("recognised", first.lease_id, "runner=7")
        assert again.expires_at >= first.expires_at
        assert type(engine)(worker_token).acquire("deploy-main", metadata="runner=7").verdict == "held"

    @pytest.mark.parametrize("ephemeral", [True, False])
    def test_with_octostore_compatibility_the_session_is_the_holder_of_its_locks(self, engine, space, ephemeral):
        Space.objects.filter(pk=space.pk).update(octostore_compatibility=True)
        one, other = engine.open_session().session_id, engine.open_session().session_id
        first = engine.acquire("deploy-main", session_id=one, ephemeral=ephemeral)
        assert engine.acquire("deploy-main", session_id=other, ephemeral=ephemeral).verdict == "held"
        assert engine.acquire("deploy-main").verdict == "held"
        again = engine.acquire("deploy-main", session_id=one, ephemeral=ephemeral)
        assert (again.verdict, again.lease_id) == ("recognised", first.lease_id)
        engine.acquire("plain")
        assert engine.acquire("plain", session_id=one).verdict == "held"

    def test_with_octostore_compatibility_a_rotated_token_is_the_same_holder(self, engine, space):
        Space.objects.filter(pk=space.pk).update(octostore_compatibility=True)
        first = engine.acquire("deploy-main")
        again = type(engine)(rotate(space, "operator")).acquire("deploy-main")
        assert (again.verdict, again.lease_id) == ("recognised", first.lease_id)


class TestOwnership:
    """A lease belongs to the token that took it."""

    def test_another_token_of_the_space_can_neither_renew_nor_release_it(self, engine, worker_token):
        lease = engine.acquire("deploy-main")
        other = type(engine)(worker_token)
        assert other.renew("deploy-main", lease.lease_id).verdict == "held_by_another"
        assert other.release("deploy-main", lease.lease_id).verdict == "held_by_another"
        assert engine.renew("deploy-main", lease.lease_id).verdict == "renewed"
        assert engine.release("deploy-main", lease.lease_id).verdict == "released"

    def test_nor_can_it_learn_that_the_session_of_the_lease_is_over(self, engine, worker_token):
        session = engine.open_session().session_id
        lease = engine.acquire("deploy-main", session_id=session)
        Session.objects.filter(pk=session).update(ended_at=Now())
        other = type(engine)(worker_token)
        assert other.renew("deploy-main", lease.lease_id).verdict == "not_held"
        assert other.release("deploy-main", lease.lease_id).verdict == "not_held"
        assert Lock.objects.get().lease_id == lease.lease_id

    def test_its_rotated_successors_can(self, engine, space):
        leases = {name: engine.acquire(name) for name in ("a", "b")}
        second = type(engine)(rotate(space, "operator"))
        third = type(engine)(rotate(space, "operator"))
        assert second.renew("a", leases["a"].lease_id).verdict == "renewed"
        assert third.renew("a", leases["a"].lease_id).verdict == "renewed"
        assert third.release("a", leases["a"].lease_id).verdict == "released"
        assert engine.renew("b", leases["b"].lease_id).verdict == "renewed"

    def test_an_older_token_does_not_own_the_leases_of_its_successor(self, engine, space):
        lease = type(engine)(rotate(space, "operator")).acquire("deploy-main")
        assert engine.release("deploy-main", lease.lease_id).verdict == "held_by_another"

    def test_a_new_token_with_the_name_of_a_revoked_one_does_not(self, engine, space):
        lease = engine.acquire("deploy-main")
        Token.objects.update(revoked_at=Now())
        namesake = type(engine)(issue(space, "operator", "locks:write"))
        assert namesake.renew("deploy-main", lease.lease_id).verdict == "held_by_another"
        Token.objects.filter(revoked_at__isnull=False).update(rotated_at=Now())
        assert namesake.renew("deploy-main", lease.lease_id).verdict == "held_by_another"


class TestLimits:
    def test_a_ttl_over_the_limit_of_the_space_is_refused(self, engine, space):
        refused = engine.acquire("deploy-main", ttl_seconds=space.max_ttl_seconds + 1)
        assert refused.verdict == "ttl_too_long"
        assert refused.max_ttl_seconds == space.max_ttl_seconds
        assert not Lock.objects.exists()

    def test_metadata_is_counted_in_characters(self, engine, space):
        assert engine.acquire("a", metadata="ü" * 1024).verdict == "acquired"
        assert engine.acquire("b", metadata="x" * 1025).verdict == "metadata_too_long"

    def test_max_hold_limits_every_expiry(self, engine, space):
        Space.objects.filter(pk=space.pk).update(max_hold_seconds=120)
        lease = engine.acquire("deploy-main", ttl_seconds=600)
        assert lease.expires_at - lease.acquired_at == timedelta(seconds=120)
        renewed = engine.renew("deploy-main", lease.lease_id, ttl_seconds=600)
        assert renewed.expires_at == lease.expires_at
        pass_seconds(121)
        assert engine.renew("deploy-main", lease.lease_id, ttl_seconds=600).verdict == "not_held"

    def test_lowering_max_hold_ends_renewals(self, engine, space):
        lease = engine.acquire("deploy-main", ttl_seconds=60)
        Space.objects.filter(pk=space.pk).update(max_hold_seconds=1)
        time.sleep(1.05)
        assert engine.renew("deploy-main", lease.lease_id).verdict == "max_hold_reached"

    def test_a_full_space_grants_no_lease_but_still_answers_held(self, engine, space):
        from locks.engine.execution import run
        from locks.engine.operations import count_live

        Space.objects.filter(pk=space.pk).update(max_live_locks=2)
        first = engine.acquire("a")
        engine.acquire("b")
        run(count_live([space.pk]))
        assert engine.acquire("c").verdict == "space_full"
        assert engine.acquire("a").verdict == "held"
        assert engine.claim_next(["a", "c"]).verdict == "space_full"
        assert engine.acquire_all(["c", "d"])[0].verdict == "space_full"
        assert engine.renew("a", first.lease_id).verdict == "renewed"
        engine.release("a", first.lease_id)
        time.sleep(1)
        run(count_live([space.pk]))
        assert engine.acquire("c").verdict == "acquired"

    def test_requests_for_many_names_never_exceed_the_limit(self, engine, space):
        """Though the servers count only once a second."""
        Space.objects.filter(pk=space.pk).update(max_live_locks=3)
        assert {row.verdict for row in engine.acquire_all(["a", "b", "c", "d"])} == {"space_full"}
        assert {row.verdict for row in engine.acquire_all(["a", "b"])} == {"acquired"}
        assert {row.verdict for row in engine.acquire_all(["c", "d"])} == {"space_full"}
        assert engine.claim_next(["a", "c"]).verdict == "acquired"
        assert engine.claim_next(["a", "d"]).verdict == "space_full"
        assert engine.claim_next(["a", "b"]).verdict == "held"
        assert Lock.objects.filter(lease_id__isnull=False).count() == 3

    def test_a_space_with_too_many_names_grants_only_names_that_it_has(self, engine, space):
        held = engine.acquire("a")
        free = engine.acquire("b")
        engine.release("b", free.lease_id)
        Space.objects.filter(pk=space.pk).update(max_names=2)
        SpaceUsage.objects.create(space=space)
        run(maintenance.count_storage())
        assert engine.acquire("c").verdict == "space_full"
        assert {row.verdict for row in engine.acquire_all(["b", "c"])} == {"space_full"}
        assert engine.claim_next(["a", "c"]).verdict == "space_full"
        assert sorted(Lock.objects.values_list("name", flat=True)) == ["a", "b"]
        assert engine.acquire("a").verdict == "held"
        assert engine.renew("a", held.lease_id).verdict == "renewed"
        assert engine.claim_next(["a", "b"]).verdict == "acquired"

    def test_a_space_with_a_full_history_grants_nothing_but_renews_and_releases(self, engine, space):
        session = engine.open_session()
        held = engine.acquire("a", session_id=session.session_id)
        Space.objects.filter(pk=space.pk).update(max_events=2)
        SpaceUsage.objects.create(space=space, events=2)
        assert engine.acquire("b").verdict == "history_full"
        assert {row.verdict for row in engine.acquire_all(["b", "c"])} == {"history_full"}
        assert engine.claim_next(["b"]).verdict == "history_full"
        assert engine.open_session().verdict == "history_full"
        assert engine.keep_alive(session.session_id).verdict == "kept_alive"
        assert engine.renew("a", held.lease_id).verdict == "renewed"
        assert engine.release("a", held.lease_id).verdict == "released"

    def test_the_number_of_live_sessions_is_limited(self, engine, space):
        over = engine.open_session()
        with connection.cursor() as cursor:
            cursor.execute(
                """
                INSERT INTO octo_session (id, space_id, token_id, owner, ttl_seconds, expires_at, next_sweep_at)
                SELECT gen_random_uuid(), space_id, token_id, owner, 60, expires_at, next_sweep_at
                FROM octo_session CROSS JOIN generate_series(2, 10000)
                """
            )
        assert engine.open_session().verdict == "space_full"
        assert engine.end_session(over.session_id).verdict == "ended"
        assert engine.open_session().verdict == "opened"


class TestTokens:
    def test_a_revoked_token_is_unauthenticated_from_the_next_statement_on(self, engine, space):
        lease = engine.acquire("deploy-main")
        space.tokens.update(revoked_at="2020-01-01T00:00:00Z")
        assert engine.acquire("other").verdict == "unauthenticated"
        assert engine.renew("deploy-main", lease.lease_id).verdict == "unauthenticated"
        assert engine.release("deploy-main", lease.lease_id).verdict == "unauthenticated"
        assert engine.inspect("deploy-main").verdict == "unauthenticated"

    def test_an_expired_token_and_one_of_an_archived_space_are_unauthenticated(self, engine, space):
        space.tokens.update(expires_at="2020-01-01T00:00:00Z")
        assert engine.acquire("a").verdict == "unauthenticated"
        space.tokens.update(expires_at=None)
        Space.objects.filter(pk=space.pk).update(archived_at="2020-01-01T00:00:00Z")
        assert engine.acquire("a").verdict == "unauthenticated"

    def test_a_missing_scope_is_refused(self, engine, worker_token):
        worker = type(engine)(worker_token)
        worker.acquire("deploy-main")
        assert worker.force_release("deploy-main").verdict == "scope_missing"

    def test_names_outside_the_prefixes_are_refused(self, engine, space):
        space.tokens.update(prefixes=["ci/", "deploy-"])
        assert engine.acquire("deploy-main").verdict == "acquired"
        assert engine.acquire("ci/build").verdict == "acquired"
        assert engine.acquire("cron").verdict == "name_not_allowed"
        assert engine.claim_next(["ci/a", "cron"]).verdict == "name_not_allowed"
        rows = engine.acquire_all(["ci/a", "cron"])
        assert [(row.verdict, row.is_allowed) for row in rows] == [
            ("name_not_allowed", True),
            ("name_not_allowed", False),
        ]

    def test_the_same_name_in_another_space_is_another_lock(self, engine, red_space):
        from tests.conftest import issue

        stranger = type(engine)(issue(red_space, "stranger", "locks:read", "locks:write"))
        mine = engine.acquire("deploy-main", owner="mine")
        theirs = stranger.acquire("deploy-main", owner="theirs")
        assert (mine.verdict, theirs.verdict) == ("acquired", "acquired")
        assert stranger.renew("deploy-main", mine.lease_id).verdict == "held_by_another"
        assert stranger.inspect("deploy-main").owner == "theirs"
