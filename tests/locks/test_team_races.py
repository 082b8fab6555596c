"""Races of users who change a team, and of workers whose token or space is revoked or archived."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from django.db import connection, connections, transaction
from django.test import Client

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire
from locks.models import Event, Invite, Lock, Membership, Role, Space, Token, User, Webhook
from locks.services import force_release, invites, members, spaces, teams, tokens, webhooks
from locks.services.audit import Actor
from locks.token_format import parse
from tests import database
from tests.conftest import PASSWORD, issue
from tests.locks.engine.concurrent_session import MAX_WAIT, concurrent_session
from tests.polling import until

pytestmark = pytest.mark.usefixtures("committed")

ROUNDS = 8


def together(*acts):
    """Runs each function on its own thread and connection at the same time; returns results and exceptions."""
    start = threading.Barrier(len(acts))

    def run(act):
        start.wait()
        try:
            return act()
        except Exception as raised:
            return raised
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(acts)) as threads:
        return list(threads.map(run, acts))


def claim(token: str, name: str) -> str:
    presented = parse(token)
    assert presented is not None
    (outcome,) = run(acquire([requests.Acquire(digest=presented.digest.hex(), name=name, ttl_seconds=600)]))
    return outcome.verdict


def test_two_admins_who_demote_each_other_leave_one(blue, alice, olga):
    for _round in range(ROUNDS):
        Membership.objects.filter(team=blue).update(role=Role.ADMIN)

        def demotes(one, other):
            return lambda: members.change_role(
                actor=Actor.of_user(one), by=one, team=blue, member=other, role=Role.VIEWER
            )

        answers = together(demotes(alice, olga), demotes(olga, alice))
        roles = sorted(Membership.objects.filter(team=blue).values_list("role", flat=True))
        assert roles == ["admin", "viewer"], answers
        # The second was not an admin any more.
        assert sorted(type(answer) for answer in answers if answer is not True) == [teams.NotAllowed]
    assert Event.objects.filter(kind="role_changed").count() == ROUNDS


def test_two_admins_who_leave_at_once_leave_one(blue, alice, olga):
    for _round in range(ROUNDS):
        for person in (alice, olga):
            Membership.objects.update_or_create(team=blue, user=person, defaults={"role": Role.ADMIN})

        def leaves(one):
            return lambda: members.leave(actor=Actor.of_user(one), team=blue, member=one)

        answers = together(leaves(alice), leaves(olga))
        assert [type(answer) for answer in answers if answer is not None] == [members.LastAdmin]
        assert Membership.objects.filter(team=blue, role=Role.ADMIN).count() == 1


def change_in_console(superuser, user, **form):
    """Removes all rights of the user that are not in the form."""
    browser = Client()
    browser.force_login(superuser)
    form |= {"username": user.username, "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    return lambda: browser.post(f"/admin/locks/user/{user.pk}/change/", form).status_code


def test_two_superusers_who_demote_each_other_leave_one(root, bob):
    User.objects.update(is_superuser=True, is_staff=True)
    demote_bob, demote_root = (change_in_console(*pair, is_active="on") for pair in ((root, bob), (bob, root)))
    with concurrent_session() as other:
        with transaction.atomic():
            assert demote_bob() == 302
            refused = other.run_blocked(demote_root)
        assert refused.result(20) == 200
    assert list(User.objects.filter(is_superuser=True, is_staff=True)) == [root]


def test_while_an_admin_leaves_the_other_is_not_made_inactive(blue, alice, olga, root):
    Membership.objects.filter(user=olga).update(role=Role.ADMIN)
    make_inactive = change_in_console(root, olga)
    with concurrent_session() as superuser:
        with transaction.atomic():
            members.leave(actor=Actor.of_user(alice), team=blue, member=alice)
            refused = superuser.run_blocked(make_inactive)
        assert refused.result(20) == 200
    assert User.objects.get(pk=olga.pk).is_active


def test_of_two_concurrent_accepts_of_an_invitation_one_succeeds(blue, red, alice, bob, root):
    for _round in range(ROUNDS):
        Membership.objects.filter(team=blue).exclude(user=alice).delete()
        _code, invite = invites.create(
            actor=Actor.of_user(alice), by=alice, team=blue, role=Role.VIEWER, lifetime=timedelta(days=1), note=""
        )

        def accepts(one, invite=invite):
            return lambda: invites.accept(actor=Actor.of_user(one), invite=invite, member=one)

        answers = together(accepts(bob), accepts(root))
        assert [type(answer) for answer in answers if isinstance(answer, Exception)] == [invites.NotOpen]
        assert Membership.objects.filter(team=blue).count() == 2
    assert Invite.objects.filter(accepted_at=None).count() == 0


def test_of_two_concurrent_requests_for_a_name_one_gets_an_error(blue, alice):
    """Both forms are valid when they are checked. The first has created the account and waits for the team, the second
    waits for the first."""
    browsers = [invited(blue, by=alice) for _ in range(2)]

    def joins(browser):
        form = {"username": "erin", "email": "", "password": PASSWORD}
        return browser.post("/ui/join/accept", form)

    with (
        psycopg.connect(database.conninfo(connection.settings_dict["NAME"])) as other,
        concurrent_session() as first,
        concurrent_session() as second,
    ):
        other.execute("SELECT FROM octo_team FOR UPDATE")
        joined = first.run_blocked(joins, browsers[0])
        refused = second.start(joins, browsers[1])
        while len(second.waiting()) < 2:
            assert not refused.done()
        other.rollback()
        assert joined.result(MAX_WAIT)["Location"] == "/ui/blue/"
        reply = refused.result(MAX_WAIT)
    assert (reply.status_code, "This name is taken" in reply.content.decode()) == (422, True)
    assert Membership.objects.filter(team=blue).count() == 2
    assert invites.open_invites().count() == 1, "theirs is still good"
    assert browsers[1].post(
        "/ui/join/accept", {"username": "erin2", "email": "", "password": PASSWORD}
    )["Location"] == "/ui/blue/"  # fmt: skip


def test_an_address_taken_meanwhile_is_rejected_like_any_other(alice, bob):
    browser = Client(raise_request_exception=False)
    browser.force_login(bob)
    with psycopg.connect(database.conninfo(connection.settings_dict["NAME"])) as other, concurrent_session() as person:
        other.execute("UPDATE octo_user SET email = 'us@example.com' WHERE username = 'alice'")
        changing = person.run_blocked(browser.post, "/ui/account/profile", {"email": "us@example.com"})
        other.commit()
        reply = changing.result(MAX_WAIT)
    assert (reply.status_code, "Another account has this address" in reply.content.decode()) == (422, True)
    bob.refresh_from_db()
    assert bob.email == "bob@example.com"


def acts_of_admins(space, actor):
    """Actions on tokens and webhooks, as they are called after the page has checked the role."""
    _, hook = webhooks.create(actor=Actor.of_shell(), space=space, url="https://hooks.example/in")
    worker = Token.objects.select_related("space").get(name="worker")
    on_hook = {"actor": actor, "webhook": hook}
    return {
        "create": lambda: webhooks.create(actor=actor, space=space, url="https://hooks.example/in"),
        "change": lambda: webhooks.change(**on_hook, url="https://elsewhere.example/in"),
        "pause": lambda: webhooks.pause(**on_hook),
        "resume": lambda: webhooks.resume(**on_hook),
        "rotate secret": lambda: webhooks.rotate_secret(**on_hook, overlap=timedelta(0)),
        "test": lambda: webhooks.send_test(**on_hook),
        "replay": lambda: webhooks.replay(**on_hook),
        "delete": lambda: webhooks.delete(**on_hook),
        "issue": lambda: tokens.issue(actor=actor, space=space, name="another", scopes=["locks:read"]),
        "rotate": lambda: tokens.rotate(actor=actor, token=worker, overlap=timedelta(0)),
        "revoke": lambda: tokens.revoke(actor=actor, token=worker),
    }


def test_an_admin_demoted_before_an_action_is_rejected(blue, space, alice, worker_token):
    acts = acts_of_admins(space, Actor.of_user(alice))
    Membership.objects.filter(user=alice).update(role=Role.OPERATOR)
    before = Event.objects.count()
    for name, act in acts.items():
        with pytest.raises(teams.NotAllowed):
            pytest.fail(f"{name} answered {act()}")
    assert Event.objects.count() == before
    # As an admin again, the user may.
    Membership.objects.filter(user=alice).update(role=Role.ADMIN)
    for name in ("pause", "test", "delete", "issue", "rotate"):
        acts[name]()
    assert Event.objects.count() == before + 5


def test_an_admin_demoted_meanwhile_is_rejected(blue, space, alice):
    browser = Client(raise_request_exception=False)
    browser.force_login(alice)
    with psycopg.connect(database.conninfo(connection.settings_dict["NAME"])) as other, concurrent_session() as person:
        other.execute("SELECT FROM octo_team FOR UPDATE")
        form = {"url": "https://hooks.example/in", "kinds": ["expired"]}
        creating = person.run_blocked(browser.post, "/ui/blue/main/webhooks/new", form)
        other.execute("UPDATE octo_membership SET role = 'viewer'")
        other.commit()
        assert creating.result(MAX_WAIT).status_code == 403
    assert not Webhook.objects.exists()


def test_a_token_revoked_meanwhile_issues_no_other(space):
    manager = issue(space, "manager", "tokens:manage")

    def issues():
        headers = {"Authorization": f"Bearer {manager}"}
        body = {"name": "successor", "scopes": ["tokens:manage"]}
        return Client(headers=headers).post("/tokens", body, content_type="application/json")

    with psycopg.connect(database.conninfo(connection.settings_dict["NAME"])) as other, concurrent_session() as program:
        other.execute("SELECT FROM octo_team FOR UPDATE")
        issuing = program.run_blocked(issues)
        other.execute("UPDATE octo_token SET revoked_at = now()")
        other.commit()
        assert issuing.result(MAX_WAIT).status_code == 401
    assert [token.name for token in Token.objects.all()] == ["manager"]


def invited(team, *, by) -> Client:
    """A browser that has opened an invitation."""
    code, _invite = invites.create(
        actor=Actor.of_user(by), by=by, team=team, role=Role.VIEWER, lifetime=timedelta(days=1), note=""
    )
    browser = Client(raise_request_exception=False)
    assert browser.post("/ui/join", {"code": code}).status_code == 302
    return browser


def test_a_removed_admin_does_not_come_back_by_a_link_accepted_at_that_moment(blue, alice, olga, bob):
    for _round in range(ROUNDS):
        Membership.objects.filter(team=blue).exclude(user=alice).delete()
        Membership.objects.create(team=blue, user=olga, role=Role.ADMIN)
        _code, invite = invites.create(
            actor=Actor.of_user(olga), by=olga, team=blue, role=Role.ADMIN, lifetime=timedelta(days=1), note=""
        )
        removal, joining = together(
            lambda: members.remove(actor=Actor.of_user(alice), by=alice, team=blue, member=olga),
            lambda invite=invite: invites.accept(actor=Actor.of_user(bob), invite=invite, member=bob),
        )
        assert removal is None
        joined = Membership.objects.filter(team=blue, user=bob).exists()
        # It was accepted while Olga was still an admin, or never.
        assert joined != isinstance(joining, invites.NotOpen)
        assert not invites.open_invites().exists()


def test_revoking_and_releasing_leaves_nothing_however_busy_the_token_is(space, alice, worker_token):
    token = Token.objects.select_related("space__team").get()
    over = threading.Event()

    def claims(number: int):
        def work():
            taken = 0
            while not over.is_set():
                verdict = claim(worker_token, f"job-{number}-{taken}")
                if verdict != "acquired":
                    assert verdict == "unauthenticated"
                    return taken
                taken += 1
            return taken

        return work

    def revokes():
        until(lambda: Lock.objects.filter(lease_id__isnull=False).exists())
        time.sleep(0.2)
        tokens.revoke(actor=Actor.of_user(alice), token=token)
        released = force_release.force_release_all(actor=Actor.of_user(alice), space=space, token=token, reason="lost")
        left = force_release.live_leases(space=space, token=token).count()
        over.set()
        return released, left

    *taken, (released, left) = together(*[claims(number) for number in range(4)], revokes)
    assert left == 0
    assert released == sum(taken) > 0
    assert Event.objects.filter(kind="force_released", reason="lost").count() == released
    assert not Lock.objects.filter(lease_id__isnull=False).exists()


def test_a_claim_that_waited_while_its_token_was_revoked_is_released_too(space, alice, worker_token):
    token = Token.objects.select_related("space__team").get()
    Lock.objects.create(space=space, name="job")
    with (
        psycopg.connect(database.conninfo(connection.settings_dict["NAME"])) as other,
        concurrent_session() as worker,
        concurrent_session() as person,
    ):
        other.execute("SELECT FROM octo_lock WHERE name = 'job' FOR UPDATE")
        claimed = worker.run_blocked(claim, worker_token, "job")
        tokens.revoke(actor=Actor.of_user(alice), token=token)
        releasing = person.start(
            force_release.force_release_all, actor=Actor.of_user(alice), space=space, token=token, reason="lost"
        )
        time.sleep(0.3)
        assert not releasing.done()
        other.rollback()
        assert claimed.result(MAX_WAIT) == "acquired"
        assert releasing.result(MAX_WAIT) == 1
    assert not Lock.objects.filter(lease_id__isnull=False).exists()


def test_a_space_with_a_claim_in_progress_is_not_archived(blue, space, alice, worker_token):
    Space.objects.create(team=blue, slug="other", name="Other")
    Lock.objects.create(space=space, name="job")
    with (
        psycopg.connect(database.conninfo(connection.settings_dict["NAME"])) as other,
        concurrent_session() as worker,
        concurrent_session() as person,
    ):
        other.execute("SELECT FROM octo_lock WHERE name = 'job' FOR UPDATE")
        claimed = worker.run_blocked(claim, worker_token, "job")
        archiving = person.start(spaces.archive, actor=Actor.of_user(alice), by=alice, space=space, release=False)
        until(Space.objects.filter(pk=space.pk, archived_at__isnull=False).exists)
        assert not archiving.done()
        other.rollback()
        assert claimed.result(MAX_WAIT) == "acquired"
        assert isinstance(archiving.exception(MAX_WAIT), spaces.LocksAreHeld)
    space.refresh_from_db()
    assert space.archived_at is None
    assert Lock.objects.filter(lease_id__isnull=False).count() == 1
    assert list(Event.objects.filter(kind__startswith="space_").values_list("kind", flat=True).order_by("id")) == [
        "space_archived", "space_changed",
    ]  # fmt: skip
