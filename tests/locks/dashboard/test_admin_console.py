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
