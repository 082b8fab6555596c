"""Spaces: created, limited, archived, restored."""

import pytest
from django.utils.html import strip_tags

from locks.dashboard.spaces.forms import LIMIT_LABELS
from locks.models import Event, Lock, Space, SpaceUsage
from locks.services import spaces as service
from locks.services.audit import Actor
from locks.token_format import parse
from tests.locks.dashboard.conftest import Worker

pytestmark = pytest.mark.django_db

LIMITS = {
    "name": "Main", "default_ttl_seconds": 60, "max_ttl_seconds": 3_600, "max_hold_seconds": "", "max_live_locks": 10,
    "max_names": 1_000, "max_events": 10_000,
    "max_metadata_length": 100, "max_waiters_per_name": 10, "max_waiters": 100, "requests_per_second": "",
}  # fmt: skip


@pytest.fixture
def url(now_url):
    return now_url + "team"


@pytest.fixture
def second(blue) -> Space:
    return Space.objects.create(team=blue, slug="staging", name="Staging")


def test_limits_are_changed_take_effect_at_once_and_are_on_the_record(visit, alice, url, space, worker_token):
    reply = visit(alice).post(f"{url}/limits", {**LIMITS, "name": "Prime", "max_live_locks": 5}, follow=True)
    assert "New limits of Prime saved" in reply.content.decode()
    space.refresh_from_db()
    assert (space.name, space.slug, space.max_ttl_seconds, space.max_live_locks) == ("Prime", "main", 3_600, 5)
    detail = Event.objects.get(kind="space_changed").detail
    assert detail["max_ttl_seconds"] == {"from": 86_400, "to": 3_600}
    assert detail["name"] == {"from": "Main", "to": "Prime"}
    with pytest.raises(AssertionError):
        Worker(worker_token).takes("job", ttl_seconds=3_601)
    visit(alice).post(f"{url}/limits", {**LIMITS, "name": "Prime", "max_live_locks": 5})
    assert Event.objects.filter(kind="space_changed").count() == 1


@pytest.mark.parametrize("path", ["", "/limits"])
def test_the_pages_show_what_is_used_of_the_limits(visit, alice, url, space, worker_token, path):
    Worker(worker_token).takes("job")
    Space.objects.filter(pk=space.pk).update(max_live_locks=11, max_names=1_222, max_events=13_333)
    SpaceUsage.objects.create(space=space, names=444, events=5_555)
    text = " ".join(strip_tags(visit(alice).get(url + path).content.decode()).split())
    for shown in ("1 / 11", "444 / 1,222", "5,555 / 13,333"):
        assert shown in text


def test_every_limit_is_explained(visit, alice, url):
    text = visit(alice).get(f"{url}/limits").content.decode()
    for name in LIMIT_LABELS:
        explained = Space._meta.get_field(name).help_text
        assert explained
        assert f'name="{name}"' in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"default_ttl_seconds": 7_200}, "At most the maximum TTL"),
        ({"max_hold_seconds": 600}, "At least the maximum TTL"),
        ({"default_ttl_seconds": 0}, "greater than or equal to 1"),
        ({"max_ttl_seconds": 10**9}, "less than or equal to"),
        ({"max_metadata_length": 10**6}, "less than or equal to"),
        ({"max_live_locks": ""}, "required"),
        ({"max_names": 10_000_001}, "At most 10,000,000 on this server."),
        ({"max_events": 1_000_000_001}, "At most 1,000,000,000 on this server."),
        ({"requests_per_second": -1}, "greater than or equal to"),
        ({"name": ""}, "required"),
    ],
)
def test_limits_that_contradict_each_other_are_refused(visit, alice, url, space, changes, message):
    reply = visit(alice).post(f"{url}/limits", {**LIMITS, **changes})
    assert reply.status_code == 422
    assert message in reply.content.decode()
    assert Space.objects.get(pk=space.pk).max_ttl_seconds == 86_400


def test_a_space_is_created(visit, alice, url, blue):
    assert visit(alice).get(f"{url}/spaces/new").status_code == 200
    reply = visit(alice).post(f"{url}/spaces/new", {**LIMITS, "name": "Staging", "slug": "staging"})
    assert reply["Location"] == "/ui/blue/staging/team"
    assert Event.objects.get(kind="space_created").detail == {"space": "Staging", "slug": "staging"}
    taken = visit(alice).post(f"{url}/spaces/new", {**LIMITS, "name": "Staging", "slug": "staging"})
    assert taken.status_code == 422
    assert "has, or had, this address" in taken.content.decode()


def test_archiving_is_refused_while_a_lock_is_held_unless_it_is_to_be_released(
    visit, alice, url, space, second, worker, worker_token, now_url
):
    held = worker.takes("job")
    refused = visit(alice).post(f"{url}/archive", {"typed_name": "main"})
    assert refused.status_code == 409
    assert "1 lock is held" in refused.content.decode()
    assert worker.renews("job", held.lease_id) == "renewed"
    assert visit(alice).post(f"{url}/archive", {"typed_name": "mian", "release": "on"}).status_code == 422
    reply = visit(alice).post(f"{url}/archive", {"typed_name": "main", "release": "on"})
    assert reply["Location"] == "/ui/blue/"
    assert not Lock.objects.filter(lease_id__isnull=False).exists()
    assert Event.objects.get(kind="force_released").reason == "the space Main was archived"
    assert Event.objects.filter(kind="space_archived").count() == 1


def test_an_archived_space_is_gone_everywhere(visit, alice, url, space, second, worker_token, now_url, client):
    visit(alice).post(f"{url}/archive", {"typed_name": "main"})
    bearer = {"Authorization": f"Bearer {worker_token}"}
    for path in ("/whoami", "/locks", "/locks/a", "/events", "/tokens"):
        assert client.get(path, headers=bearer).status_code == 401
    assert client.post("/locks/a/acquire", "{}", content_type="application/json", headers=bearer).status_code == 401
    for path in ("", "activity", "tokens", "tokens/new", "team", "team/limits", "locks/a"):
        assert visit(alice).get(now_url + path).status_code == 404
    there = visit(alice).get("/ui/blue/staging/team").context["team_spaces"]
    assert [row.space.name for row in there] == ["Staging"]
    assert parse(worker_token) is not None


def test_the_last_space_of_a_team_stays(visit, alice, url, space):
    reply = visit(alice).post(f"{url}/archive", {"typed_name": "main"})
    assert reply.status_code == 409
    assert "last space" in reply.content.decode()
    space.refresh_from_db()
    assert space.archived_at is None


def test_it_is_archived_once(alice, space, second):
    service.archive(actor=Actor.of_user(alice), by=alice, space=space, release=False)
    with pytest.raises(service.AlreadyArchived):
        service.archive(actor=Actor.of_user(alice), by=alice, space=space, release=False)
    assert Event.objects.filter(kind="space_archived").count() == 1


def test_an_archived_space_is_restored_with_its_tokens_and_on_the_record(
    visit, alice, olga, url, space, second, worker_token, client
):
    browser, team = visit(alice), "/ui/blue/staging/team"
    browser.post(f"{url}/archive", {"typed_name": "main"})
    assert "Archived" in browser.get(team).content.decode()
    assert "Archived" not in visit(olga).get(team).content.decode()
    asked = browser.get(f"{team}/restore/main").content.decode()
    assert "1 of its tokens works again" in asked
    assert browser.post(f"{team}/restore/main")["Location"] == url
    assert browser.get(url).status_code == 200
    assert client.get("/whoami", headers={"Authorization": f"Bearer {worker_token}"}).status_code == 200
    event = Event.objects.get(kind="space_restored")
    assert (event.space_id, event.actor_name, event.detail) == (space.pk, "alice", {"space": "Main"})
    assert "alice restored the space Main" in browser.get(url).content.decode()


def test_it_is_restored_once_after_reauthentication_and_only_by_its_team(
    visit, later, alice, url, space, second, red_space
):
    service.archive(actor=Actor.of_user(alice), by=alice, space=second, release=False)
    assert "Confirm it is you" in later(alice).post(f"{url}/restore/staging").content.decode()
    assert Space.objects.get(pk=second.pk).archived_at
    browser = visit(alice)
    for _ in range(2):
        assert browser.post(f"{url}/restore/staging").status_code == 302
    assert "was restored already" in browser.get(url).content.decode()
    assert "Nothing was restored" in browser.get(f"{url}/restore/staging").content.decode()
    assert Event.objects.filter(kind="space_restored").count() == 1
    Space.objects.create(team=red_space.team, slug="past", name="Past", archived_at=second.created_at)
    assert browser.post(f"{url}/restore/past").status_code == 404


def test_only_admins_manage_spaces(visit, olga, victor, bob, url):
    for path in ("limits", "spaces/new", "archive"):
        assert visit(olga).get(f"{url}/{path}").status_code == 403
        assert visit(victor).post(f"{url}/{path}").status_code == 403
        assert visit(bob).get(f"{url}/{path}").status_code == 404
