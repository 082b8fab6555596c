"""Asking for the release of a lock: what operators see, and how often one may ask."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F

from locks.models import Event, ReleaseRequest
from locks.services.audit import Actor
from locks.services.release_requests import MAX_OPEN, Outcome, request_release
from locks.services.stuck import count_stuck
from tests.locks.dashboard.conftest import Worker

URL = "/ui/blue/main/ask/deploy/api"


@pytest.fixture
def held(worker):
    return worker.takes("deploy/api", ttl_seconds=600, owner="runner-7", metadata="contact=ada@example.com")


def form(held, reason: str = "the hotfix waits") -> dict[str, str]:
    return {"fencing_token": str(held.fencing_token), "reason": reason}


@pytest.mark.django_db
def test_operators_see_the_request_on_stuck_now_and_lock(held, victor, olga, visit):
    shown = visit(victor).get(URL).text
    assert 'href="mailto:ada@example.com"' in shown
    assert visit(victor).post(URL, form(held))["Location"] == "/ui/blue/main/locks/deploy/api"
    assert count_stuck() == 1
    for path in ("stuck", "stuck?reason=release_requested", "", "locks/deploy/api"):
        assert "Release requested by victor" in visit(olga).get(f"/ui/blue/main/{path}").text, path
    event = Event.objects.get(kind="release_requested")
    assert (event.actor_name, event.owner, event.reason) == ("victor", "runner-7", "the hotfix waits")
    visit(olga).post(URL, form(held))
    assert "Release requested by olga and 1 more" in visit(olga).get("/ui/blue/main/stuck").text


@pytest.mark.django_db
def test_the_request_ends_with_the_lease(held, worker, victor, olga, visit):
    visit(victor).post(URL, form(held))
    worker.gives_back("deploy/api", held.lease_id)
    assert visit(victor).post(URL, form(held)).status_code == 409
    worker.takes("deploy/api", ttl_seconds=600)
    assert "Release requested" not in visit(olga).get("/ui/blue/main/stuck").text
    reply = visit(olga).post(URL, form(held))
    assert (reply.status_code, "has a new holder" in reply.text) == (409, True)
    assert Event.objects.filter(kind="release_requested").count() == 1


@pytest.mark.django_db
def test_a_person_asks_for_a_lock_once_in_ten_minutes(held, worker, victor, olga, visit):
    other = worker.takes("other", ttl_seconds=600)
    browser = visit(victor)
    assert browser.post(URL, form(held)).status_code == 302
    reply = browser.post(URL, form(held))
    assert (reply.status_code, "less than 10 minutes ago" in reply.text) == (429, True)
    assert browser.post("/ui/blue/main/ask/other", form(other)).status_code == 302
    assert visit(olga).post(URL, form(held)).status_code == 302
    ReleaseRequest.objects.update(requested_at=F("requested_at") - timedelta(minutes=10))
    assert browser.post(URL, form(held)).status_code == 302


@pytest.mark.django_db
def test_a_person_has_a_limited_number_of_open_requests_in_a_space(held, worker, victor, olga, visit):
    browser = visit(victor)
    others = [worker.takes(f"other-{number}", ttl_seconds=600) for number in range(MAX_OPEN)]
    for other in others:
        assert browser.post(f"/ui/blue/main/ask/{other.name}", form(other)).status_code == 302
    reply = browser.post(URL, form(held))
    assert (reply.status_code, "You have 20 open requests in Main." in reply.text) == (429, True)
    assert not ReleaseRequest.objects.filter(lock_name="deploy/api").exists()
    # An open request can be repeated, others have their own limit, and a lease that ends makes room.
    ReleaseRequest.objects.update(requested_at=F("requested_at") - timedelta(minutes=10))
    assert browser.post(f"/ui/blue/main/ask/{others[0].name}", form(others[0])).status_code == 302
    assert visit(olga).post(URL, form(held)).status_code == 302
    worker.gives_back(others[1].name, others[1].lease_id)
    assert browser.post(URL, form(held)).status_code == 302


@pytest.mark.django_db
def test_a_reason_is_required(held, victor, visit):
    reply = visit(victor).post(URL, form(held, " "))
    assert (reply.status_code, "Say why you need it" in reply.text) == (422, True)


@pytest.mark.django_db
@pytest.mark.parametrize("contact", ["javascript:alert(1)", "a@b?cc=all@example.com", "call me", "https://evil@host/"])
def test_only_addresses_and_web_urls_are_contacts(contact, worker, victor, visit):
    worker.takes("deploy/api", ttl_seconds=600, metadata=f"contact={contact}")
    assert "Contact of the holder" not in visit(victor).get(URL).text


def test_of_requests_at_once_one_is_recorded(committed, space, worker_token, victor):
    held = Worker(worker_token).takes("deploy/api", ttl_seconds=600)

    def ask(_number: int) -> Outcome:
        try:
            return request_release(
                actor=Actor.of_user(victor), space=space, lock_name="deploy/api", fencing_token=held.fencing_token,
                owner="worker", reason="race",
            )  # fmt: skip
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(ask, range(4))) == ["recorded", "too_soon", "too_soon", "too_soon"]
    assert Event.objects.filter(kind="release_requested").count() == 1
