"""Bulk force-release: selection, preview, confirmation, progress, stop; refusals and changed states."""

import re
from collections import Counter

import pytest

from locks.models import BulkRelease, BulkReleaseItem, BulkReleaseState, Event, Lock
from locks.services import bulk_release
from tests.locks.dashboard.test_now import age

pytestmark = pytest.mark.django_db

CONFIRM = {"reason": "its host is gone", "lock_delay_seconds": 0}


def selected(held) -> str:
    return f"{Lock.objects.get(name=held.name).pk}:{held.fencing_token}"


@pytest.fixture
def jobs(worker):
    """Three locks whose heartbeats are late."""
    held = [worker.takes(f"job-{number}", owner="runner-7", ttl_seconds=300) for number in range(3)]
    for one in held:
        age(one.name, seconds=200)
    return held


@pytest.fixture
def prepare(now_url):
    def posted(browser, **form) -> BulkRelease:
        reply = browser.post(now_url + "releases/prepare", form)
        assert reply.status_code == 302, reply.content
        return BulkRelease.objects.latest("pk")

    return posted


def url_of(now_url, batch, *verbs: str) -> str:
    return "/".join([f"{now_url}releases/{batch.pk}", *verbs])


def work_off(batch) -> None:
    while bulk_release.release_next_chunk(batch.pk):
        pass


def outcomes(batch) -> dict[str, str | None]:
    return dict(batch.rows.values_list("lock_name", "outcome"))


def test_selected_locks_are_previewed_confirmed_and_released(jobs, worker, visit, olga, now_url, prepare):
    other = worker.takes("other")
    browser = visit(olga)
    batch = prepare(browser, lock=[selected(one) for one in jobs])
    shown = browser.get(url_of(now_url, batch)).content.decode()
    assert "Force-release 3 locks" in shown
    assert "1 owner" in shown
    assert str(jobs[0].fencing_token) in shown
    assert not Event.objects.filter(kind="force_released").exists()
    reply = browser.post(url_of(now_url, batch, "confirm"), {**CONFIRM, "lock_delay_seconds": 30})
    assert reply["Location"] == url_of(now_url, batch)
    assert "Waiting for a worker" in browser.get(url_of(now_url, batch)).content.decode()
    work_off(batch)
    assert outcomes(batch) == {"job-0": "released", "job-1": "released", "job-2": "released"}
    events = Event.objects.filter(kind="force_released")
    assert {(event.actor_name, event.reason, event.detail["batch"]) for event in events} == {
        ("olga", "its host is gone", batch.pk)
    }
    assert set(events.values_list("id", flat=True)) == set(batch.rows.values_list("event_id", flat=True))
    assert list(Event.objects.filter(kind__startswith="bulk").order_by("id").values_list("kind", "detail__batch")) == [
        ("bulk_release_started", batch.pk),
        ("bulk_release_finished", batch.pk),
    ]
    assert Lock.objects.filter(available_at__isnull=False).count() == 3
    assert worker.renews("other", other.lease_id) == "renewed"
    done = browser.get(url_of(now_url, batch)).content.decode()
    assert "<b>3</b> released" in done
    assert f"/activity/{events[0].pk}" in done


def test_a_new_holder_keeps_the_lock(jobs, worker, visit, olga, now_url, prepare):
    browser = visit(olga)
    batch = prepare(browser, lock=[selected(one) for one in jobs])
    worker.gives_back("job-1", jobs[1].lease_id)
    now = worker.takes("job-1", owner="runner-9")
    worker.gives_back("job-2", jobs[2].lease_id)
    shown = browser.get(url_of(now_url, batch)).content.decode()
    assert "2 ended or changed holder since you looked" in shown
    assert "runner-9</bdi> holds it now" in shown
    browser.post(url_of(now_url, batch, "confirm"), CONFIRM)
    work_off(batch)
    assert outcomes(batch) == {"job-0": "released", "job-1": "fencing_mismatch", "job-2": "not_held"}
    assert worker.renews("job-1", now.lease_id) == "renewed"
    done = browser.get(url_of(now_url, batch) + "?show=skipped").content.decode()
    assert "held by runner-9 by then" in done
    assert "no longer held" in done
    assert "job-0" not in done


def test_a_viewer_is_refused_and_others_find_nothing(jobs, visit, olga, alice, victor, bob, now_url, prepare):
    selection = {"lock": [selected(one) for one in jobs]}
    assert visit(victor).post(now_url + "releases/prepare", selection).status_code == 403
    assert visit(bob).post(now_url + "releases/prepare", selection).status_code == 404
    batch = prepare(visit(olga), **selection)
    for verb in ("confirm", "stop"):
        assert visit(victor).post(url_of(now_url, batch, verb), CONFIRM).status_code == 403
        assert visit(bob).post(url_of(now_url, batch, verb), CONFIRM).status_code == 404
    assert visit(alice).get(url_of(now_url, batch)).status_code == 404
    visit(olga).post(url_of(now_url, batch, "confirm"), CONFIRM)
    assert visit(bob).get(url_of(now_url, batch)).status_code == 404
    assert visit(bob).get(now_url + "releases").status_code == 404
    assert "its host is gone" in visit(victor).get(url_of(now_url, batch)).content.decode()
    assert "its host is gone" in visit(victor).get(now_url + "releases").content.decode()
    assert not Event.objects.filter(kind="force_released").exists()


def test_locks_of_another_space_are_not_selected(jobs, visit, bob, red_space):
    reply = visit(bob).post("/ui/red/main/releases/prepare", {"lock": [selected(one) for one in jobs]})
    assert reply.status_code == 422
    assert "Nothing to release" in reply.content.decode()
    assert not BulkReleaseItem.objects.exists()


@pytest.mark.parametrize("nonsense", [{}, {"lock": ["x:y", ":", "1:", "9999999999:1"]}, {"holder": "x"}, {"all": "x"}])
def test_invalid_forms_select_nothing(jobs, visit, olga, now_url, nonsense):
    assert visit(olga).post(now_url + "releases/prepare", nonsense).status_code == 422


def test_a_heartbeating_holder_is_released_only_after_a_phrase_was_typed(jobs, worker, visit, olga, now_url, prepare):
    alive = worker.takes("alive", owner="runner-8")
    browser = visit(olga)
    batch = prepare(browser, lock=[selected(one) for one in (*jobs, alive)])
    assert "1 is still heartbeating" in browser.get(url_of(now_url, batch)).content.decode()
    for typed in ("", "release 3"):
        reply = browser.post(url_of(now_url, batch, "confirm"), {**CONFIRM, "typed": typed})
        assert (reply.status_code, "Type “release 4” to continue" in reply.content.decode()) == (422, True)
    batch.refresh_from_db()
    assert batch.state == BulkReleaseState.PREPARED
    assert browser.post(url_of(now_url, batch, "confirm"), {**CONFIRM, "typed": "Release 4"}).status_code == 302


def test_a_reason_is_required(jobs, visit, olga, now_url, prepare):
    browser = visit(olga)
    batch = prepare(browser, lock=[selected(jobs[0])])
    reply = browser.post(url_of(now_url, batch, "confirm"), {**CONFIRM, "reason": " "})
    assert (reply.status_code, "Enter a reason" in reply.content.decode()) == (422, True)


def test_a_double_click_counts_once(jobs, visit, olga, now_url, prepare):
    browser = visit(olga)
    batch = prepare(browser, lock=[selected(jobs[0])])
    for reason in ("first", "second"):
        assert browser.post(url_of(now_url, batch, "confirm"), {**CONFIRM, "reason": reason}).status_code == 302
    work_off(batch)
    work_off(batch)
    assert list(Event.objects.filter(kind="force_released").values_list("reason", flat=True)) == ["first"]
    assert Event.objects.filter(kind="bulk_release_started").count() == 1
    assert Event.objects.filter(kind="bulk_release_finished").count() == 1


def test_a_running_release_can_be_stopped(worker, visit, olga, now_url, prepare, monkeypatch):
    for number in range(5):
        worker.takes(f"job-{number}", owner="runner-7", ttl_seconds=300)
        age(f"job-{number}", seconds=200)
    monkeypatch.setattr(bulk_release, "CHUNK_SIZE", 2)
    browser = visit(olga)
    batch = prepare(browser, all="now", prefix="job-")
    browser.post(url_of(now_url, batch, "confirm"), CONFIRM)
    assert bulk_release.release_next_chunk(batch.pk)
    assert browser.post(url_of(now_url, batch, "stop")).status_code == 302
    work_off(batch)
    assert list(outcomes(batch).values()) == ["released", "released", "not_attempted", "not_attempted", "not_attempted"]
    shown = browser.get(url_of(now_url, batch)).content.decode()
    assert "<b>2</b> released, 0 skipped, <b>3</b> not attempted" in " ".join(shown.split())
    stopped = Event.objects.get(kind="bulk_release_stopped")
    assert (stopped.actor_name, stopped.detail["released"], stopped.detail["left"]) == ("olga", 2, 3)
    assert browser.post(url_of(now_url, batch, "stop")).status_code == 302
    assert Event.objects.filter(kind="bulk_release_stopped").count() == 1


@pytest.mark.parametrize(
    ("form", "label", "expected"),
    [
        ({"all": "now"}, "all locks held here", {"deploy/api", "deploy/web", "cron"}),
        ({"all": "now", "prefix": "deploy/"}, "all locks with prefix “deploy/”", {"deploy/api", "deploy/web"}),
        ({"all": "now", "q": "RUNNER-2"}, "all locks matching “RUNNER-2”", {"deploy/web"}),
        ({"all": "now", "owner": "cron-a", "q": "c"}, "all locks matching “c” and held by “cron-a”", {"cron"}),
    ],
)
def test_all_locks_of_a_filter(worker, visit, olga, prepare, form, label, expected):
    worker.takes("deploy/api", owner="runner-1")
    worker.takes("deploy/web", owner="runner-2")
    worker.takes("cron", owner="cron-a")
    worker.gives_back("closed", worker.takes("closed", lock_delay_seconds=30).lease_id)
    batch = prepare(visit(olga), **form)
    assert (batch.selection_label, set(outcomes(batch))) == (label, expected)


def test_all_locks_of_an_owner(worker, visit, olga, prepare):
    worker.takes("mine", owner="runner: 7")
    worker.takes("also mine".replace(" ", "-"), owner="runner: 7")
    worker.takes("not-mine", owner="runner-8")
    batch = prepare(visit(olga), holder=f"{Lock.objects.get(name='mine').holder_id}:runner: 7")
    assert (batch.selection_label, set(outcomes(batch))) == ("all locks of runner: 7", {"mine", "also-mine"})


def test_a_selection_has_a_limit(worker, visit, olga, prepare, monkeypatch):
    from locks.dashboard.bulk_release import selection

    monkeypatch.setattr(selection, "MAX_LOCKS", 2)
    for number in range(3):
        worker.takes(f"job-{number}")
    batch = prepare(visit(olga), all="now")
    assert (batch.selection_label, batch.total) == ("the first 2 of all locks held here", 2)


def test_an_unconfirmed_release_is_purged_and_a_confirmed_one_is_not(jobs, visit, olga, now_url, prepare):
    browser = visit(olga)
    prepared = prepare(browser, lock=[selected(jobs[0])])
    confirmed = prepare(browser, lock=[selected(jobs[1])])
    browser.post(url_of(now_url, confirmed, "confirm"), CONFIRM)
    BulkRelease.objects.update(created_at="2020-01-01T00:00Z")
    bulk_release.purge(days=30)
    assert list(BulkRelease.objects.all()) == [confirmed]
    assert browser.get(url_of(now_url, prepared)).status_code == 404
    BulkRelease.objects.update(ended_at="2020-01-01T00:00Z")
    bulk_release.purge(days=30)
    assert not BulkReleaseItem.objects.exists()


def test_no_two_elements_have_the_same_id(jobs, visit, olga, now_url, prepare):
    browser = visit(olga)
    batch = prepare(browser, lock=[selected(one) for one in jobs])

    def duplicates() -> list[str]:
        ids = re.findall(r'\bid="([^"]+)"', browser.get(url_of(now_url, batch)).content.decode())
        return [one for one, number in Counter(ids).items() if number > 1]

    assert not duplicates()
    browser.post(url_of(now_url, batch, "confirm"), CONFIRM)
    assert not duplicates()
    work_off(batch)
    assert not duplicates()
