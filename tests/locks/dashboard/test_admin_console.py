"""The break-glass console shows everything but secrets, and changes nothing the engine alone may change."""

import pytest

from locks.models import Event, Lock, Token

pytestmark = pytest.mark.django_db

MODELS = ["event", "heartbeat", "lock", "session", "space", "team", "token", "user", "waiter"]


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


def test_people_of_a_team_do_not_get_in(visit, alice):
    assert visit(alice).get("/admin/").status_code == 302


def test_its_door_is_the_dashboards(client, root, alice, visit):
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


def test_an_address_that_a_superuser_enters_counts_as_verified(visit, root, alice):
    from allauth.account.models import EmailAddress

    form = {"username": "alice", "email": "al@example.com", "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    assert visit(root).post(f"/admin/locks/user/{alice.pk}/change/", form).status_code == 302
    assert list(EmailAddress.objects.values_list("user", "email", "verified")) == [(alice.pk, "al@example.com", True)]
