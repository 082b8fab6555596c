"""Reserve on the pages: works, is refused, finds another state."""

import re

import pytest

from locks.models import Event, Lock, Membership, SpaceRole, User
from tests.locks.dashboard.test_now import age
from tests.locks.engine.test_freezes import freeze

pytestmark = pytest.mark.django_db

FORM = {"reason": "database migration", "seconds": "3600"}


@pytest.fixture
def free(worker):
    """A lock that was used, and is free."""
    worker.gives_back("job", worker.takes("job").lease_id)


@pytest.fixture
def reserved(visit, olga, now_url, free):
    assert visit(olga).post(now_url + "reserve/job", FORM).status_code == 302
    return Lock.objects.get(name="job")


def text_of(reply) -> str:
    return " ".join(reply.content.decode().split())


def test_an_operator_reserves_a_lock_and_everyone_sees_by_whom_and_why(visit, olga, victor, now_url, reserved):
    page = text_of(visit(victor).get(now_url + "locks/job"))
    assert "Reserved by <b><bdi>olga</bdi></b>" in page
    assert "database" in page
    assert "Extend…" not in page
    assert "Reserved" in text_of(visit(victor).get(now_url))
    assert "a person" in text_of(visit(victor).get(now_url + "owners"))
    event = Event.objects.filter(lock_name="job", kind="acquired").latest("id")
    assert (event.actor_kind, event.actor_id, event.channel) == ("user", olga.pk, "web")
    assert "reserved it" in text_of(visit(victor).get(now_url + "activity"))


def test_a_name_that_was_never_used_can_be_reserved(visit, olga, now_url):
    reply = visit(olga).post(now_url + "reserve", {**FORM, "name": "brand/new"})
    assert (reply.status_code, reply["Location"]) == (302, now_url + "locks/brand/new")
    assert Lock.objects.get().owner == "olga"


@pytest.mark.parametrize("name", ["", "a//b", "run:x", "path:../x"])
def test_what_is_not_a_name_is_refused(visit, olga, now_url, name):
    assert visit(olga).post(now_url + "reserve", {**FORM, "name": name}).status_code == 422


def test_it_is_extended_and_says_where_the_limits_end(visit, olga, now_url, reserved):
    form = {"fencing_token": reserved.fencing_token, "seconds": "3600"}
    reply = visit(olga).post(now_url + "extend/job", form)
    assert "job is reserved until" in text_of(reply)
    assert "allow no more" not in text_of(reply)
    assert "allow no more" in text_of(visit(olga).post(now_url + "extend/job", {**form, "seconds": "86400"}))
    assert Lock.objects.get().expires_at > reserved.expires_at
    assert Event.objects.filter(kind="extended").count() == 2


def test_it_is_handed_over_to_a_colleague_who_then_has_it(visit, olga, alice, victor, now_url, reserved):
    url = now_url + "hand-over/job"
    page = text_of(visit(olga).get(url))
    assert f'value="{alice.pk}"' in page
    assert f'value="{victor.pk}"' not in page
    form = {"fencing_token": reserved.fencing_token, "to": alice.pk}
    assert visit(olga).post(url, form).status_code == 302
    lock = Lock.objects.get()
    assert (lock.owner, lock.expires_at) == ("alice", reserved.expires_at)
    assert lock.fencing_token > reserved.fencing_token
    assert "Extend…" in text_of(visit(alice).get(now_url + "locks/job"))
    assert "olga handed it over to" in text_of(visit(victor).get(now_url + "activity"))


def test_it_is_handed_over_to_those_who_may_reserve_in_this_space(visit, olga, victor, alice, space, now_url, reserved):
    """A role in the space replaces that in the team."""
    SpaceRole.objects.create(membership=victor.memberships.get(), space=space, role="operator")
    otto = User.objects.create(username="otto")
    in_team = Membership.objects.create(team=space.team, user=otto, role="operator")
    SpaceRole.objects.create(membership=in_team, space=space, role="viewer")
    page = text_of(visit(olga).get(now_url + "hand-over/job"))
    assert re.findall(r'<option value="\d+"[^>]*>(\w+)', page) == ["alice", "victor"]
    form = {"fencing_token": reserved.fencing_token, "to": otto.pk}
    assert visit(olga).post(now_url + "hand-over/job", form).status_code == 422


def test_it_is_released(visit, olga, now_url, reserved):
    url = now_url + "release/job"
    assert visit(olga).post(url, {"fencing_token": reserved.fencing_token}).status_code == 302
    event = Event.objects.get(kind="released", actor_kind="user")
    assert (event.actor_name, event.owner) == ("olga", "olga")
    assert visit(olga).post(url, {"fencing_token": reserved.fencing_token}).status_code == 409


def test_an_operator_who_became_a_viewer_can_only_release_it(visit, olga, alice, now_url, reserved):
    olga.memberships.update(role="viewer")
    page = text_of(visit(olga).get(now_url + "locks/job"))
    assert ("Extend…" in page, "Hand over…" in page, 'id="release"' in page) == (False, False, True)
    form = {"fencing_token": reserved.fencing_token, "seconds": "3600", "to": alice.pk}
    for act, status in (("extend", 403), ("hand-over", 403), ("release", 302)):
        assert visit(olga).post(f"{now_url}{act}/job", form).status_code == status


def test_a_reservation_that_has_expired_has_no_actions(visit, olga, now_url, reserved):
    age("job", seconds=4000)
    page = text_of(visit(olga).get(now_url + "locks/job"))
    assert ("Extend…" in page, 'id="release"' in page, "Reserve…" in page) == (False, False, True)


def test_a_person_has_no_token_and_no_heartbeat(visit, olga, now_url, reserved):
    for path in ("owners", "owner?name=olga"):
        page = text_of(visit(olga).get(now_url + path))
        assert "a person" in page
        assert "<code>None</code>" not in page
        assert 'data-label="Last heartbeat" class="number"> <span class="none">' in page.replace(
            'class="number" data-label="Last heartbeat"', 'data-label="Last heartbeat" class="number"'
        )
    # Only the event is left.
    Lock.objects.all().delete()
    assert "a reservation" in text_of(visit(olga).get(now_url + "owner?name=olga"))


def test_a_bulk_release_counts_reservations_apart(visit, alice, worker, now_url, reserved):
    held = worker.takes("other", ttl_seconds=600)
    form = {"lock": [f"{reserved.pk}:{reserved.fencing_token}"]}
    form["lock"].append(f"{Lock.objects.get(name='other').pk}:{held.fencing_token}")
    browser = visit(alice)
    page = text_of(browser.get(browser.post(now_url + "releases/prepare", form)["Location"]))
    assert "<b>1 is still heartbeating.</b>" in page
    assert "<b>1 is reserved by people.</b>" in page


def test_a_lock_that_is_held_or_frozen_is_not_reserved(worker, visit, olga, space, now_url, free):
    frozen = freeze(space, "job")
    assert "It is frozen: database migration" in text_of(visit(olga).post(now_url + "reserve/job", FORM))
    frozen.delete()
    worker.takes("job", owner="runner-7")
    reply = visit(olga).post(now_url + "reserve/job", FORM)
    assert (reply.status_code, "runner-7 holds it" in text_of(reply)) == (409, True)
    # What was typed is not lost.
    assert 'value="database migration"' in text_of(reply)


def test_the_durations_are_those_that_the_space_allows(visit, olga, space, now_url, free):
    space.max_ttl_seconds, space.max_hold_seconds = 1000, 1000
    space.save()
    page = text_of(visit(olga).get(now_url + "reserve/job"))
    assert "16 min 40 s, the longest here" in page
    assert "This space allows at most 16 min 40 s from now" in page
    assert visit(olga).post(now_url + "reserve/job", FORM).status_code == 422
    assert visit(olga).post(now_url + "reserve/job", {**FORM, "seconds": "1000"}).status_code == 302


@pytest.mark.parametrize("act", ["extend", "hand-over", "release"])
def test_only_the_one_who_has_it_can_change_it(visit, alice, victor, bob, now_url, reserved, act):
    form = {"fencing_token": reserved.fencing_token, "seconds": "3600", "to": alice.pk}
    assert visit(alice).post(f"{now_url}{act}/job", form).status_code == 409
    # Everyone may release their own.
    assert visit(victor).post(f"{now_url}{act}/job", form).status_code == (409 if act == "release" else 403)
    assert visit(bob).post(f"{now_url}{act}/job", form).status_code == 404
    assert Lock.objects.get().fencing_token == reserved.fencing_token


@pytest.mark.parametrize("act", ["extend", "hand-over", "release"])
def test_nothing_is_changed_under_another_fencing_token(visit, olga, alice, now_url, reserved, act):
    form = {"fencing_token": reserved.fencing_token - 1, "seconds": "3600", "to": alice.pk}
    assert visit(olga).post(f"{now_url}{act}/job", form).status_code == 409
    assert Lock.objects.get().expires_at == reserved.expires_at


def test_a_viewer_cannot_reserve(visit, victor, now_url, free):
    assert visit(victor).post(now_url + "reserve/job", FORM).status_code == 403
    assert "Reserve…" not in text_of(visit(victor).get(now_url + "locks/job"))


def test_force_release_of_a_reservation_asks_for_the_name(visit, alice, now_url, reserved):
    page = text_of(visit(alice).get(now_url + "locks/job/force-release"))
    assert "A person has reserved it" in page
    form = {"fencing_token": reserved.fencing_token, "reason": "left", "lock_delay_seconds": 0}
    assert visit(alice).post(now_url + "locks/job/force-release", form).status_code == 422
    assert visit(alice).post(now_url + "locks/job/force-release", {**form, "typed_name": "job"}).status_code == 200
