"""A lease ends with the session it is bound to, on every page at once, before the sweep records it."""

import pytest

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import keep_alive, open_session
from locks.models import Token
from locks.services.force_release import live_leases
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.django_db


@pytest.fixture
def session_id(worker):
    opened = run(open_session(requests.OpenSession(digest=worker.digest, owner="runner-7", ttl_seconds=60)))
    worker.takes("deploy/api", owner="runner-7", ttl_seconds=3600, session_id=opened.session_id)
    worker.takes("deploy/web", owner="runner-8", ttl_seconds=3600)
    return opened.session_id


def test_no_page_shows_it_as_held_after_its_session_ended(session_id, space, visit, alice, now_url):
    browser = visit(alice)
    token = Token.objects.get()

    def seen() -> dict[str, object]:
        now = browser.get(now_url)
        owners = browser.get(now_url + "owners").context["owners"].rows
        return {
            "Now": {row.lock.name: row.lock.state for row in now.context["lock_list"].rows},
            "in groups": {
                row.lock.name: row.lock.state for row in browser.get(now_url + "?group=owner").context["lock_list"].rows
            },
            "counted": now.context["counters"].held,
            "Owners": {row.owner.owner: row.owner.holding for row in owners},
            "Lock": browser.get(now_url + "locks/deploy/api").context["lock"].state,
            "of the token": browser.get(now_url + "tokens").context["results"].rows[0].live_leases,
            "of the space": browser.get(now_url + "team").context["team_spaces"][0].counts.held,
            "matched": browser.get(now_url + "tokens/new").context["match_count"],
            "to be taken back": [lock.name for lock in live_leases(space=space, token=token).order_by("name")],
        }

    alive = seen()
    assert alive["Now"] == alive["in groups"] == {"deploy/api": "held", "deploy/web": "held"}
    pass_seconds(61)
    assert seen() == {
        "Now": {"deploy/api": "overdue", "deploy/web": "held"},
        "in groups": {"deploy/api": "overdue", "deploy/web": "held"},
        "counted": 1,
        "Owners": {"runner-7": 0, "runner-8": 1},
        "Lock": "overdue",
        "of the token": 1,
        "of the space": 1,
        "matched": "1",
        "to be taken back": ["deploy/web"],
    }


def test_its_countdown_and_its_heartbeat_are_those_of_the_session(session_id, worker, visit, alice, now_url):
    pass_seconds(45)
    browser = visit(alice)
    page = browser.get(now_url + "locks/deploy/api")
    assert page.context["lock"].state == "expiring", "a session that has missed its keep-alive"
    run(keep_alive([requests.SessionRef(digest=worker.digest, session_id=session_id)]))
    page = browser.get(now_url + "locks/deploy/api")
    assert page.context["lock"].state == "held"
    assert page.context["lock"].is_heartbeating
    assert page.context["lock"].remaining_percent > 95
    assert "its session kept alive" in page.content.decode()
    form = browser.get(now_url + "locks/deploy/api/force-release").content.decode()
    assert "still heartbeating" in form


def test_a_stuck_lock_shows_when_its_session_ended(session_id, visit, alice, now_url):
    pass_seconds(70)
    (stuck,) = visit(alice).get(now_url + "stuck").context["inbox"].locks
    assert (stuck.lock.name, stuck.lock.state) == ("deploy/api", "overdue")
    assert stuck.lock.effective_expires_at < stuck.lock.now, "and not the expiry that it would have had"
