"""Contention: the names in demand, as sentences, charts and numbers."""

from datetime import UTC, datetime, timedelta

import pytest

from locks.dashboard import charts
from locks.engine.execution import run
from locks.events.history.histogram import bucket_of
from locks.events.history.rollup import UsageCounts, add_usage
from locks.models import Measure, StatsHistogram, StatsMinute

pytestmark = pytest.mark.django_db


@pytest.fixture
def crowded(space) -> None:
    """Nine grants and six refusals ten minutes ago, four refusals five hours ago, two waits of 10 and 30 seconds."""
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    recent, earlier = minute - timedelta(minutes=10), minute - timedelta(hours=5)
    run(
        add_usage(
            [
                UsageCounts(
                    space_id=space.pk, minute=recent.isoformat(), refused=6, waited=2, names={"deploy": 5, "cron": 1},
                    waits={bucket_of(10_000): 1, bucket_of(30_000): 1}, waited_names={"deploy": (2, 40_000)},
                ),
                UsageCounts(space_id=space.pk, minute=earlier.isoformat(), refused=4, names={"cron": 4}),
            ]
        )
    )  # fmt: skip
    StatsMinute.objects.filter(space_id=space.pk, minute=recent).update(acquired=9)
    StatsHistogram.objects.create(
        space_id=space.pk, minute=recent, measure=Measure.HOLD, bucket=bucket_of(60_000), count=9
    )


def names(listed) -> list[tuple[str, int, int]]:
    return [(name.name, name.refused, name.waited) for name in listed]


def test_the_most_refused_and_the_most_waited_for(crowded, visit, victor, now_url):
    browser = visit(victor)
    hour = browser.get(now_url + "contention?span=1h").context["contention"]
    assert (hour.granted, hour.refused, hour.refused_percent) == (9, 6, 40.0)
    assert names(hour.most_refused) == [("deploy", 5, 2), ("cron", 1, 0)]
    assert names(hour.most_waited) == [("deploy", 5, 2)]
    assert hour.most_waited[0].average_wait == "20 s"
    day = browser.get(now_url + "contention").context["contention"]
    assert (day.granted, day.refused) == (9, 10)
    assert names(day.most_refused) == [("cron", 5, 0), ("deploy", 5, 2)]
    week = browser.get(now_url + "contention?span=7d")
    assert "10 of 19 claims (52.6 %) were refused" in " ".join(week.content.decode().split())


@pytest.mark.parametrize(("span", "steps"), [("1h", 60), ("24h", 48), ("7d", 56), ("nonsense", 48)])
def test_every_step_has_a_bar_and_a_row(crowded, visit, victor, now_url, span, steps):
    reply = visit(victor).get(f"{now_url}contention?span={span}")
    found = reply.context["contention"]
    assert len(found.steps) == steps
    drawn = [step for step in found.steps if step.refused_bar]
    assert sum(step.refused for step in drawn) == found.refused
    assert [step.wait is not None for step in drawn].count(True) == 1
    assert reply.content.decode().count('<path class="chart-refused"') == len(drawn)


def test_percentiles_of_holds_and_waits(crowded, visit, victor, now_url):
    found = visit(victor).get(now_url + "contention").context["contention"]
    assert (found.hold.count, found.wait.count) == (9, 2)
    low, high = next(step.wait for step in found.steps if step.wait)
    assert low == pytest.approx(10_000, rel=0.11)
    assert high == pytest.approx(30_000, rel=0.11)


def test_an_idle_space_says_so_and_leads_to_the_first_lock(space, visit, victor, now_url):
    content = visit(victor).get(now_url + "contention").content.decode()
    assert "No claims in the last 24 hours" in content
    assert f'href="{now_url}connect"' in content


def test_others_find_nothing(crowded, visit, bob, red_space, now_url, client):
    assert visit(bob).get(now_url + "contention").status_code == 404
    assert visit(bob).get("/ui/red/main/contention").context["contention"].refused == 0
    assert client.get(now_url + "contention").status_code == 302


def test_scales_are_round_and_hold_everything():
    for number in (0, 1, 5, 9, 11, 99, 1_150, 250_000):
        top = charts.round_top(number)
        assert top >= number
        assert top % 2 == 0
    scale = charts.Scale.around([(20, 7_000), None])
    assert (scale.bottom, scale.top) == (10, 10_000)
    assert scale.height(10) == 0
    assert scale.height(10_000) == charts.HEIGHT
    endless = charts.Scale.around([(9e9, 9e9)])
    assert endless.height(9e9) == charts.HEIGHT
    bars = [bar for bar in charts.ranges([(20, 7_000), None, (10, 10)], scale=scale) if bar]
    assert all(bar.y >= 0 and bar.y + bar.height <= charts.HEIGHT + 0.01 for bar in bars)
