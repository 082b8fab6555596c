"""Times in the zone of the user, with UTC on hover."""

from datetime import UTC, datetime

import pytest

from locks.dashboard.lock.hold_times import hold_times
from locks.dashboard.lock.queries import Hold
from locks.models import Event, User

pytestmark = pytest.mark.django_db


def test_a_user_chooses_a_zone_and_pages_show_times_in_it(space, worker, victor, olga, visit):
    worker.takes("job")
    event = Event.objects.get(kind="acquired")
    browser = visit(victor)
    browser.post("/ui/account/profile", {"email": victor.email, "timezone": "Asia/Tokyo"})
    assert Event.objects.get(kind="profile_changed").detail == {"changed": ["timezone"]}
    url = f"/ui/blue/main/activity/{event.pk}"
    in_utc = f'title="{event.at.astimezone(UTC):%d %b %Y, %H:%M:%S} UTC"'
    shown = browser.get(url).text
    assert in_utc in shown
    assert " JST</time>" in shown
    assert "times in Asia/Tokyo" in browser.get("/ui/blue/main/activity").text
    others = visit(olga).get(url).text
    assert in_utc in others
    assert " JST" not in others


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd"])
def test_an_unknown_zone_is_refused_and_a_stored_one_is_utc(zone, space, worker, victor, visit):
    worker.takes("job")
    reply = visit(victor).post("/ui/account/profile", {"email": victor.email, "timezone": zone})
    assert reply.status_code == 422
    User.objects.filter(pk=victor.pk).update(timezone=zone[:64])
    assert "times in UTC" in visit(victor).get("/ui/blue/main/activity").text


def hold(hour: int, held_ms: int) -> Hold:
    ended = datetime(2026, 11, 18, hour, 30, tzinfo=UTC)
    return Hold(
        event_id=1, end_kind="released", lock_name="job", owner="a", metadata=None, fencing_token=1, actor_name="a",
        reason=None, recorded_at=ended, began_at=ended, ended_at=ended, held_ms=held_ms,
    )  # fmt: skip


def test_percentiles_of_each_step_of_a_lock():
    now = datetime(2026, 11, 19, tzinfo=UTC)
    holds = [hold(5, milliseconds) for milliseconds in range(1, 101)] + [hold(23, 7)]
    result = hold_times(ended=holds, now=now, span="24h")
    assert result is not None
    counted = {step.at.hour: (step.count, step.p50, step.p95, step.p99) for step in result.steps if step.count}
    assert counted == {5: (100, 51, 96, 100), 23: (1, 7, 7, 7)}
    assert len(result.steps) == 24
    assert hold_times(ended=[], now=now, span="24h") is None


def test_the_lock_page_has_them_as_a_chart_and_a_table(space, worker, victor, visit):
    held = worker.takes("job")
    worker.gives_back("job", held.lease_id)
    shown = visit(victor).get("/ui/blue/main/locks/job?span=7d").text
    assert "Hold times p50, p95 and p99 over the last 7d" in shown
    assert 'data-label="p99"' in shown
