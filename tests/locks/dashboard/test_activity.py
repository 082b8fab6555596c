"""Activity: what happened, newest first."""

import base64
import csv
import html
import io
import json
import re

import pytest
from django.test import Client

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.maintenance import sweep_sessions
from locks.engine.operations import open_session
from locks.models import Event, Token
from tests.locks.dashboard.conftest import linked
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.django_db


def shown(reply) -> list[tuple[str, str | None]]:
    return [(event.kind, event.lock_name) for event in reply.context["activity"].events]


def test_newest_first_and_filtered_by_kind_and_lock(worker, visit, victor, now_url):
    worker.gives_back("a", worker.takes("a", owner="runner-1").lease_id)
    worker.takes("b")
    browser = visit(victor)
    everything = shown(browser.get(now_url + "activity"))
    assert everything[:3] == [("acquired", "b"), ("released", "a"), ("acquired", "a")]
    assert shown(browser.get(now_url + "activity?lock=a&kind=released")) == [("released", "a")]
    assert shown(browser.get(now_url + "activity?kind=nonsense")) == everything
    assert shown(browser.get(now_url + "activity?lock=nothing")) == []


def test_filtered_by_actor_owner_token_and_request(worker, visit, victor, olga, now_url, space):
    worker.takes("a", owner="runner-1")
    worker.takes("b", owner="runner-2")
    visit(olga).post(f"{now_url}activity/export", {"format": "csv"})
    browser = visit(victor)
    token = Token.objects.get(space=space)
    acquired = Event.objects.filter(kind="acquired")
    assert shown(browser.get(now_url + "activity?actor=olga")) == [("history_exported", None)]
    assert shown(browser.get(now_url + "activity?owner=runner-2")) == [("acquired", "b")]
    assert len(shown(browser.get(f"{now_url}activity?token={token.public_id}"))) == acquired.count() + 1
    assert shown(browser.get(now_url + "activity?token=nobody")) == []
    exported = Event.objects.get(kind="history_exported")
    assert shown(browser.get(f"{now_url}activity?request={exported.request_id}")) == [("history_exported", None)]
    assert shown(browser.get(now_url + "activity?request=req_nothing&lock=%00")) == []


def test_sessions_and_exports_have_sentences_too(worker, visit, olga, now_url):
    run(open_session(requests.OpenSession(digest=worker.digest, owner="runner-7", ttl_seconds=60)))
    pass_seconds(61)
    run(sweep_sessions())
    browser = visit(olga)
    browser.post(f"{now_url}activity/export", {"format": "csv"})
    page = browser.get(now_url + "activity").content.decode()
    assert "runner-7 opened a session" in page
    assert "Session of runner-7 expired after" in page
    assert "olga exported the history" in page
    assert "expiry:" not in page


def test_an_export_has_the_filters_of_the_page_and_is_an_event(worker, visit, olga, now_url):
    worker.gives_back("a", worker.takes("a", owner="=1+1").lease_id)
    worker.takes("b")
    browser = visit(olga)
    page = browser.get(now_url + "activity?lock=a&kind=acquired").content.decode()
    assert f'action="{now_url}activity/export?lock=a&amp;kind=acquired"' in page
    reply = browser.post(f"{now_url}activity/export?kind=acquired&lock=a", {"format": "csv"})
    assert reply["Content-Disposition"] == 'attachment; filename="blue-main-events.csv"'
    assert "no-store" in reply["Cache-Control"]
    (row,) = csv.DictReader(io.StringIO(reply.getvalue().decode()))
    assert (row["lock_name"], row["owner"]) == ("a", "'=1+1")
    lines = browser.post(f"{now_url}activity/export?lock=a", {"format": "jsonl"}).getvalue().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["released", "acquired"]
    events = Event.objects.filter(kind="history_exported").order_by("id")
    assert [(event.actor_name, event.channel) for event in events] == [("olga", "web")] * 2
    assert events[0].detail == {"format": "csv", "kinds": ["acquired"], "name": "a"}


def test_a_person_has_a_few_exports_at_a_time(visit, olga, victor, now_url):
    browser = visit(olga)
    unread = [browser.post(now_url + "activity/export", {"format": "csv"}) for _ in range(2)]
    assert [reply.status_code for reply in unread] == [200, 200]
    page = browser.post(now_url + "activity/export", {"format": "csv"}, follow=True)
    assert "Too many of your exports are under way." in page.content.decode()
    assert visit(victor).post(now_url + "activity/export", {"format": "csv"}).status_code == 200
    unread[0].getvalue()
    assert browser.post(now_url + "activity/export", {"format": "csv"}).status_code == 200


def test_an_export_is_a_post_and_for_members_only(visit, victor, bob, now_url):
    export = now_url + "activity/export"
    assert visit(victor).post(export, {"format": "csv"}).status_code == 200
    assert visit(victor).get(export).status_code == 405
    assert visit(victor).post(export, {"format": "pdf"}).status_code == 404
    assert visit(bob).post(export, {"format": "csv"}).status_code == 404
    stranger = Client(enforce_csrf_checks=True)
    stranger.force_login(victor)
    assert stranger.post(export, {"format": "csv"}).status_code == 403
    assert Event.objects.filter(kind="history_exported").count() == 1


def test_new_events_of_the_filter_are_counted(worker, visit, victor, bob, now_url):
    held = worker.takes("a")
    browser = visit(victor)
    everything, only_a = (browser.get(f"{now_url}activity{query}") for query in ("", "?lock=a"))
    worker.renews("a", held.lease_id)
    worker.takes("b")
    worker.takes("c")

    def new(page) -> int:
        (url,) = re.findall(r'data-new-count-url="([^"]+)"', page.content.decode())
        return browser.get(html.unescape(url)).json()["new"]

    assert (new(everything), new(only_a)) == (2, 0)
    worker.gives_back("a", held.lease_id)
    assert (new(everything), new(only_a)) == (3, 1)
    assert visit(bob).get(f"{now_url}activity/new-count").status_code == 404


def test_pages_go_on_where_the_last_one_ended(worker, visit, victor, now_url):
    for number in range(55):
        worker.takes(f"job-{number}")
    browser = visit(victor)
    first = browser.get(now_url + "activity?kind=acquired")
    second = browser.get(now_url + "activity" + linked(first, "next"))
    assert [name for _kind, name in shown(first) + shown(second)] == [f"job-{n}" for n in reversed(range(55))]
    assert second.context["activity"].older is None
    assert "data-new-count-url" not in second.content.decode()
    back = browser.get(now_url + "activity" + linked(second, "prev"))
    assert shown(back) == shown(first)
    assert shown(browser.get(now_url + "activity?kind=acquired&cursor=nonsense")) == shown(first)


def test_an_event_has_a_page_of_its_own(worker, visit, victor, bob, now_url):
    worker.takes("job", owner="runner-7", metadata="build=1")
    url = f"{now_url}activity/{Event.objects.get(kind='acquired').pk}"
    assert "runner-7 acquired it" in visit(victor).get(url).content.decode()
    assert visit(bob).get(url).status_code == 404
    assert visit(victor).get(f"{now_url}activity/{2**62}").status_code == 404


def test_events_of_other_spaces_stay_there(worker, visit, bob, red_space, now_url):
    worker.takes("job")
    event = Event.objects.get(kind="acquired")
    assert visit(bob).get(f"/ui/red/main/activity/{event.pk}").status_code == 404
    assert shown(visit(bob).get("/ui/red/main/activity")) == []


def test_only_kinds_that_a_space_has_are_offered(worker, visit, victor, now_url):
    offered = set(visit(victor).get(now_url + "activity").context["kinds"])
    assert {"acquired", "token_issued", "space_changed", "snoozed"} <= offered
    assert not offered & {"signed_in", "password_changed", "member_joined", "invite_created"}


def test_what_people_do_with_their_account_is_on_its_page(visit, victor, olga, space):
    Event.objects.create(
        kind="password_changed", actor_kind="user", actor_id=olga.pk, actor_name="olga", channel="web",
        detail={"sessions_ended": 2},
    )  # fmt: skip
    assert "Password changed" not in visit(victor).get("/ui/account").content.decode()
    shown = visit(olga).get("/ui/account").content.decode()
    assert "Password changed" in shown
    assert "sessions ended: 2" in shown


def test_the_page_of_an_event_has_no_python_in_it(visit, victor, space, now_url):
    event = Event.objects.create(
        kind="space_changed", space_id=space.pk, actor_kind="user", actor_name="alice", channel="web",
        detail={"max_hold_seconds": {"from": None, "to": 60}, "scopes": ["locks:read", "locks:write"], "kept": True},
    )  # fmt: skip
    text = visit(victor).get(f"{now_url}activity/{event.pk}").content.decode()
    assert "<dt>max hold seconds</dt><dd>none → 60</dd>" in text
    assert "<dd>locks:read, locks:write</dd>" in text
    assert "<dd>yes</dd>" in text
    assert "&#x27;" not in text


def test_fields_that_match_exactly_say_so(worker, visit, victor, now_url):
    text = visit(victor).get(now_url + "activity").content.decode()
    assert 'placeholder="Lock name, exact"' in text
    assert text.count('placeholder="exact name"') == 2


@pytest.mark.parametrize("direction", ["older", "newer"])
@pytest.mark.parametrize("year", ["0001", "9999"])
def test_a_forged_cursor_at_the_end_of_time_is_no_error(worker, visit, alice, now_url, year, direction):
    worker.takes("a")
    key = {"id": 7, "at": f"{year}-01-01T00:00:00Z", "direction": direction}
    cursor = base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")
    for page in ("activity?cursor", "activity/new-count?cursor", "team/activity?cursor", "locks/a?before"):
        assert visit(alice).get(f"{now_url}{page}={cursor}").status_code == 200, page


def at(name: str, moment: str) -> None:
    """An event of a lock at a time; the history cannot be changed, only added to."""
    token = Token.objects.get()
    Event.objects.create(
        at=moment, kind="acquired", space_id=token.space_id, lock_name=name, actor_kind="token", actor_name="worker",
        channel="api",
    )  # fmt: skip


def test_filtered_by_time_and_prefix(worker, visit, victor, now_url):
    for name, hour in (("deploy/a", 10), ("deploy/b", 11), ("cron/c", 11), ("deploy/d", 12)):
        at(name, f"2026-11-01T{hour}:30Z")
    browser = visit(victor)

    def found(query: str) -> set[str | None]:
        return {name for _kind, name in shown(browser.get(f"{now_url}activity?{query}")) if name}

    assert found("since=2026-11-01T11:00&until=2026-11-01T12:00") == {"deploy/b", "cron/c"}
    assert found("since=2026-11-01T11:00&prefix=deploy/") == {"deploy/b", "deploy/d"}
    assert found("since=yesterday&until=9999-99-99") == {"deploy/a", "deploy/b", "cron/c", "deploy/d"}


def test_several_kinds_and_without_routine(worker, visit, victor, olga, now_url):
    worker.gives_back("a", worker.takes("a").lease_id)
    visit(olga).post(f"{now_url}activity/export", {"format": "csv"})
    browser = visit(victor)

    def kinds(query: str) -> set[str]:
        return {kind for kind, _name in shown(browser.get(f"{now_url}activity?{query}"))}

    assert kinds("kind=released&kind=history_exported&kind=nonsense") == {"released", "history_exported"}
    assert not kinds("hide=routine") & {"acquired", "released"}
    assert "history_exported" in kinds("hide=routine")
    assert kinds("hide=routine&kind=released&kind=history_exported") == {"history_exported"}


def test_around_an_event_are_those_before_and_after_it(worker, visit, victor, bob, now_url):
    for number in range(120):
        at(f"job-{number:03}", f"2026-11-01T10:{number // 60:02}:{number % 60:02}Z")
    middle = Event.objects.get(lock_name="job-060")
    browser = visit(victor)
    assert f"?around={middle.pk}#event-{middle.pk}" in browser.get(f"{now_url}activity/{middle.pk}").content.decode()
    reply = browser.get(f"{now_url}activity?around={middle.pk}")
    listed = [name for _kind, name in shown(reply)]
    assert (listed[0], listed[-1]) == ("job-084", "job-035")
    assert 'aria-current="true"' in reply.content.decode().split(f'id="event-{middle.pk}"')[1][:80]
    assert browser.get(f"{now_url}activity?around=x").status_code == 200
