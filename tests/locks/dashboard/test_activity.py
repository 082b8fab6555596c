"""Activity: what happened, newest first."""

import pytest

from locks.models import Event

pytestmark = pytest.mark.django_db


def shown(reply) -> list[tuple[str, str | None]]:
    return [(event.kind, event.lock_name) for event in reply.context["found"].events]


def test_newest_first_and_filtered_by_kind_and_lock(worker, visit, victor, now_url):
    worker.gives_back("a", worker.takes("a", owner="runner-1").lease_id)
    worker.takes("b")
    browser = visit(victor)
    everything = shown(browser.get(now_url + "activity"))
    assert everything[:3] == [("acquired", "b"), ("released", "a"), ("acquired", "a")]
    assert shown(browser.get(now_url + "activity?lock=a&kind=released")) == [("released", "a")]
    assert shown(browser.get(now_url + "activity?kind=nonsense")) == everything
    assert shown(browser.get(now_url + "activity?lock=nothing")) == []


def test_pages_go_on_where_the_last_one_ended(worker, visit, victor, now_url):
    for number in range(55):
        worker.takes(f"job-{number}")
    browser = visit(victor)
    first = browser.get(now_url + "activity?kind=acquired")
    second = browser.get(now_url + "activity" + first.context["found"].older)
    assert [name for _kind, name in shown(first) + shown(second)] == [f"job-{n}" for n in reversed(range(55))]
    assert second.context["found"].older is None


def test_an_event_has_a_page_of_its_own(worker, visit, victor, bob, now_url):
    worker.takes("job", owner="runner-7", metadata="build=1")
    url = f"{now_url}activity/{Event.objects.get(kind='acquired').pk}"
    assert "runner-7 got it" in visit(victor).get(url).content.decode()
    assert visit(bob).get(url).status_code == 404
    assert visit(victor).get(f"{now_url}activity/{2**62}").status_code == 404


def test_events_of_other_spaces_stay_there(worker, visit, bob, red_space, now_url):
    worker.takes("job")
    event = Event.objects.get(kind="acquired")
    assert visit(bob).get(f"/ui/red/main/activity/{event.pk}").status_code == 404
    assert shown(visit(bob).get("/ui/red/main/activity")) == []
