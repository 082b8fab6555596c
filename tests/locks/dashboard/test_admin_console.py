"""The admin console shows everything but secrets, and changes nothing that only the engine may change."""

import re

import pytest
from django.apps import apps

from locks.models import Event, Lock, Membership, Role, Token
from tests.conftest import PASSWORD

pytestmark = pytest.mark.django_db

MODELS = [
    "browsersession", "event", "heartbeat", "invite", "lock", "bulkrelease", "bulkreleaseitem", "session", "snooze",
    "space", "taskrun", "team", "token", "user", "holdbaseline", "waiter",
]  # fmt: skip
LOCKS = "/admin/locks/lock/"


@pytest.mark.parametrize("model", MODELS)
def test_every_list_opens_and_can_be_searched(worker, visit, root, model):
    worker.takes("job")
    assert visit(root).get(f"/admin/locks/{model}/").status_code == 200
    if model != "heartbeat":
        assert visit(root).get(f"/admin/locks/{model}/?q=job").status_code == 200


def test_secrets_are_not_shown_and_nothing_can_be_changed(worker, worker_token, visit, root):
    held = worker.takes("job")
    browser = visit(root)
    lock = browser.get(f"/admin/locks/lock/{Lock.objects.get().pk}/change/").content.decode()
    token = browser.get(f"/admin/locks/token/{Token.objects.get().pk}/change/").content.decode()
    assert str(held.lease_id) not in lock
    assert worker_token not in token
    assert "digest" not in lock + token.lower()
    for model, number in (("lock", Lock.objects.get().pk), ("event", Event.objects.latest("id").pk)):
        assert browser.post(f"/admin/locks/{model}/{number}/change/", {}).status_code == 403
        assert browser.post(f"/admin/locks/{model}/{number}/delete/", {}).status_code == 403


def test_teams_and_spaces_are_only_looked_at(visit, root, space, alice):
    browser = visit(root)
    for path in (f"team/{space.team_id}", f"space/{space.pk}"):
        assert browser.get(f"/admin/locks/{path}/change/").status_code == 200
        assert browser.post(f"/admin/locks/{path}/change/", {"name": "Other"}).status_code == 403
        assert browser.post(f"/admin/locks/{path}/delete/", {"post": "yes"}).status_code == 403
    assert "alice" in browser.get(f"/admin/locks/team/{space.team_id}/change/").content.decode()
    assert browser.get("/admin/auth/group/").status_code == 404


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("lock/?q=deploy/", ["deploy/api", "deploy/web"]),
        ("lock/?q=eploy", []),
        ("lock/?state=held", ["cron", "deploy/api"]),
        ("lock/?state=delayed", ["deploy/web"]),
        ("event/?q=deploy/web", ["deploy/web", "deploy/web"]),
        ("event/?kind=released", ["deploy/web"]),
        ("event/?kind=token_issued", [None]),
    ],
)
def test_searches_and_filters(worker, visit, root, path, found):
    worker.takes("deploy/api")
    worker.gives_back("deploy/web", worker.takes("deploy/web", lock_delay_seconds=30).lease_id)
    worker.takes("cron")
    shown = visit(root).get(f"/admin/locks/{path}").context["cl"].result_list
    field = "name" if path.startswith("lock") else "lock_name"
    assert sorted([getattr(one, field) for one in shown], key=str) == found


def test_the_list_of_locks_is_in_the_order_of_its_index(worker, visit, root, django_assert_max_num_queries):
    worker.takes("job")
    with django_assert_max_num_queries(20) as captured:
        visit(root).get(LOCKS)
    (page,) = [query["sql"] for query in captured if '"octo_lock"."fencing_token"' in query["sql"]]
    assert page.endswith('ORDER BY "octo_lock"."space_id" ASC, "octo_lock"."name" ASC')


def chosen(*locks, **more):
    return {"action": "force_release_action", "_selected_action": [lock.pk for lock in locks], **more}


def confirmed(*locks, **changes):
    shown = [f"{lock.pk}:{lock.fencing_token}" for lock in locks]
    return chosen(*locks, **{"shown": shown, "reason": "stuck", "lock_delay_seconds": "0", **changes})


def test_locks_are_force_released_with_a_reason_and_an_event(worker, visit, root):
    worker.takes("a", owner="runner-1")
    worker.takes("b", owner="runner-2")
    browser = visit(root)
    locks = list(Lock.objects.order_by("name"))
    asked = browser.post(LOCKS, chosen(*locks))
    assert "runner-1" in asked.content.decode()
    assert str(locks[0].fencing_token) in asked.content.decode()
    assert not Event.objects.filter(kind="force_released").exists()
    done = browser.post(LOCKS, confirmed(*locks), follow=True)
    assert "Released: a, b." in done.content.decode()
    events = Event.objects.filter(kind="force_released").order_by("id")
    assert [(event.lock_name, event.actor_name, event.reason) for event in events] == [
        ("a", "root", "stuck"), ("b", "root", "stuck"),
    ]  # fmt: skip


def test_nothing_is_released_without_a_reason_or_if_the_holder_was_not_shown(worker, visit, root):
    worker.takes("a", owner="runner-1")
    lock = Lock.objects.get()
    browser = visit(root)
    without = browser.post(LOCKS, confirmed(lock, reason=" "))
    assert (without.status_code, "Enter a reason" in without.content.decode()) == (422, True)
    other = browser.post(LOCKS, confirmed(lock, shown=[f"{lock.pk}:{lock.fencing_token - 1}"]), follow=True)
    assert "another holder has acquired it since: a" in other.content.decode()
    assert (
        "another holder has acquired it" in browser.post(LOCKS, confirmed(lock, shown=[]), follow=True).content.decode()
    )
    assert not Event.objects.filter(kind="force_released").exists()


def test_a_free_lock_cannot_be_force_released(worker, visit, root):
    worker.gives_back("a", worker.takes("a").lease_id)
    reply = visit(root).post(LOCKS, confirmed(Lock.objects.get()), follow=True)
    assert "None of these locks is held" in reply.content.decode()


def test_staff_with_the_view_permission_cannot_force_release(worker, visit, alice):
    from django.contrib.auth.models import Permission

    worker.takes("a")
    alice.is_staff = True
    alice.save()
    alice.user_permissions.add(Permission.objects.get(codename="view_lock"))
    browser = visit(alice)
    assert "force_release_action" not in browser.get(LOCKS).content.decode()
    browser.post(LOCKS, confirmed(Lock.objects.get()))
    assert not Event.objects.filter(kind="force_released").exists()


def test_members_of_a_team_have_no_access(visit, alice):
    assert visit(alice).get("/admin/").status_code == 302


def test_it_signs_in_through_the_dashboard(client, root, alice, visit):
    reply = client.get("/admin/", follow=True)
    assert reply.redirect_chain[-1][0] == "/ui/sign-in?next=%2Fadmin%2F"
    assert client.post("/admin/login/", {"username": "root", "password": "x"}).status_code == 302
    assert "_auth_user_id" not in client.session
    assert visit(alice).get("/admin/", follow=True).status_code == 403
    browser = visit(root)
    assert browser.get("/admin/password_change/")["Location"] == "/ui/account"
    assert browser.post("/admin/logout/")["Location"] == "/ui/sign-in"
    assert Event.objects.filter(kind="signed_out", actor_id=root.pk).count() == 1


@pytest.mark.parametrize(
    "path", ["mfa/authenticator", "account/emailaddress", "socialaccount/socialapp", "socialaccount/socialtoken"]
)
def test_keys_and_seeds_are_nowhere_in_it(visit, root, path):
    assert visit(root).get(f"/admin/{path}/").status_code == 404


def form_of(person, **changes):
    form = {"username": person.username, "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "is_active": "on"}
    return form | changes


def inactive(person, **changes):
    form = form_of(person, **changes)
    del form["is_active"]
    return form


def person_events():
    kinds = ("person_added", "profile_changed", "password_changed")
    return [
        (event.kind, event.actor_name, event.detail) for event in Event.objects.filter(kind__in=kinds).order_by("id")
    ]


def test_changes_of_users_are_recorded(visit, root, alice):
    browser = visit(root)
    new = {"username": "nora", "usable_password": "true", "password1": "long enough 1", "password2": "long enough 1"}
    assert browser.post("/admin/locks/user/add/", new).status_code == 302
    assert browser.post(f"/admin/locks/user/{alice.pk}/change/", form_of(alice, is_superuser="on")).status_code == 302
    added, changed = person_events()
    assert added == ("person_added", "root", {"person": "nora"})
    assert changed[:2] == ("profile_changed", "root")
    assert (changed[2]["person"], changed[2]["to"]["is_superuser"]) == ("alice", True)


def test_a_password_that_a_superuser_sets_ends_every_session(visit, root, alice):
    elsewhere = visit(alice)
    assert elsewhere.get("/ui/account").status_code == 200
    words = {"usable_password": "true", "password1": "long enough 1", "password2": "long enough 1"}
    changed = visit(root).post(f"/admin/locks/user/{alice.pk}/password/", {**words, "set-password": "yes"})
    assert changed.status_code == 302
    assert elsewhere.get("/ui/account").status_code == 302
    ((kind, who, detail),) = person_events()
    assert (kind, who, detail["person"], detail["sessions_ended"]) == ("password_changed", "root", "alice", 1)


def test_changing_permissions_requires_reauthentication(later, root, alice):
    browser = later(root)
    address, form = f"/admin/locks/user/{alice.pk}/change/", form_of(alice, is_superuser="on")
    assert browser.post(address, form).status_code == 403
    alice.refresh_from_db()
    assert not alice.is_superuser
    assert browser.post(address, {**form, "confirm_password": PASSWORD}).status_code == 302
    alice.refresh_from_db()
    assert alice.is_superuser


def test_setting_a_password_requires_reauthentication(later, root, alice):
    browser = later(root)
    address, before = f"/admin/locks/user/{alice.pk}/password/", alice.password
    assert browser.get(address).status_code == 403
    words = {"usable_password": "true", "password1": "long enough 1", "password2": "long enough 1"}
    assert browser.post(address, {**words, "set-password": "yes"})["Location"] == address
    assert browser.post("/admin/locks/user/add/", {"username": "nora", **words})["Location"] == "/admin/locks/user/add/"
    alice.refresh_from_db()
    assert (alice.password, person_events()) == (before, [])


def test_removing_a_password_is_recorded(visit, root, alice):
    address = f"/admin/locks/user/{alice.pk}/password/"
    visit(root).post(address, {"usable_password": "false", "unset-password": "yes"})
    alice.refresh_from_db()
    ((kind, who, detail),) = person_events()
    assert (alice.has_usable_password(), kind, who, detail["person"]) == (False, "password_changed", "root", "alice")


def test_a_user_who_is_made_inactive_loses_every_session(visit, root, olga):
    elsewhere = visit(olga)
    browser, address = visit(root), f"/admin/locks/user/{olga.pk}/change/"
    browser.post(address, inactive(olga))
    browser.post(address, form_of(olga))
    assert elsewhere.get("/ui/account").status_code == 302
    assert [detail["to"]["is_active"] for _, _, detail in person_events()] == [False, True]


ALL_RIGHTS = {"is_staff": "on", "is_superuser": "on"}


@pytest.mark.parametrize(
    "form",
    [
        lambda root: form_of(root, is_staff="on"),
        lambda root: form_of(root, is_superuser="on"),
        lambda root: inactive(root, **ALL_RIGHTS),
    ],
    ids=["no superuser", "not let in", "inactive"],
)
def test_the_last_superuser_stays_one(visit, root, alice, form):
    browser, address = visit(root), f"/admin/locks/user/{root.pk}/change/"
    refused = browser.post(address, form(root))
    assert (refused.status_code, "This is the only superuser" in refused.content.decode()) == (200, True)
    root.refresh_from_db()
    assert (root.is_superuser, root.is_staff, root.is_active, person_events()) == (True, True, True, [])
    assert browser.post(f"/admin/locks/user/{alice.pk}/change/", form_of(alice, **ALL_RIGHTS)).status_code == 302
    assert browser.post(address, form(root)).status_code == 302


def test_the_last_admin_of_a_team_is_not_made_inactive(visit, root, blue, red, alice, olga):
    Membership.objects.create(team=red, user=alice, role=Role.VIEWER)
    browser, address = visit(root), f"/admin/locks/user/{alice.pk}/change/"
    refused = browser.post(address, inactive(alice))
    assert "This is the only admin of Blue who can sign in." in refused.content.decode()
    alice.refresh_from_db()
    assert (alice.is_active, person_events()) == (True, [])
    Membership.objects.filter(user=olga).update(role=Role.ADMIN)
    assert browser.post(address, inactive(alice)).status_code == 302


@pytest.mark.parametrize(
    ("taken", "sentence"),
    [
        ({"username": "Alice"}, "This user name is taken."),
        ({"email": "ALICE@example.com"}, "This e-mail address is taken."),
    ],
)
def test_a_name_or_address_that_is_taken_is_refused_in_one_sentence(visit, root, alice, olga, taken, sentence):
    page = visit(root).post(f"/admin/locks/user/{olga.pk}/change/", form_of(olga, **taken)).content.decode()
    assert (page.count(sentence), "Another user signs in" in page, "Constraint" in page) == (1, False, False)


def test_a_user_name_cannot_be_the_address_of_another_user(visit, root, alice):
    alice.email = "alice@example.com"
    alice.save()
    words = {"usable_password": "true", "password1": "long enough 1", "password2": "long enough 1"}
    reply = visit(root).post("/admin/locks/user/add/", {"username": "Alice@example.com", **words})
    assert (reply.status_code, "Another user signs in as" in reply.content.decode()) == (200, True)


def test_users_are_not_deleted(visit, root, alice):
    assert visit(root).post(f"/admin/locks/user/{alice.pk}/delete/", {"post": "yes"}).status_code == 403


def test_an_address_that_a_superuser_enters_counts_as_verified(visit, root, alice):
    from allauth.account.models import EmailAddress

    reply = visit(root).post(f"/admin/locks/user/{alice.pk}/change/", form_of(alice, email="al@example.com"))
    assert reply.status_code == 302
    assert list(EmailAddress.objects.values_list("user", "email", "verified")) == [(alice.pk, "al@example.com", True)]


def test_the_plural_of_each_model_is_english():
    plurals = [model._meta.verbose_name_plural for model in apps.get_app_config("locks").get_models()]
    assert not [plural for plural in plurals if re.search(r"(ss|x|ch|sh)s$|[^aeiou]ys$", str(plural))]


def test_a_lease_that_was_never_renewed_is_not_called_renewed(worker, visit, root):
    worker.takes("job")
    form = {"action": "force_release_action", "_selected_action": [Lock.objects.get().pk]}
    assert "never renewed" in visit(root).post(LOCKS, form).content.decode()


@pytest.mark.parametrize(
    "address",
    [
        "lock/?lease_id__lte=80000000-0000-0000-0000-000000000000", "lock/?lease_id__isnull=0", "session/?id__lte=8",
        "lock/?token__digest__startswith=a", "token/?digest__gt=a", "user/?password__startswith=a",
        "browsersession/?session_key__startswith=a", "waiter/?lease_id__lte=8",
        "lock/?space__locks__lease_id__isnull=0", "session/?space__tokens__name__gt=a", "run/?space__sessions__owner=a",
        "run/?space__webhooks__url__startswith=a", "user/?browser_sessions__session_key__startswith=a",
    ],
)  # fmt: skip
def test_hidden_values_cannot_be_found_by_trial(worker, visit, root, address):
    worker.takes("job")
    assert visit(root).get(f"/admin/locks/{address}").status_code in (302, 400)
