"""The timeline of many locks, and the wait graph."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from locks.dashboard.timeline import queries
from locks.engine.execution import run
from locks.engine.handover import enqueue
from locks.models import Lock, Token, Waiter
from tests.conftest import issue
from tests.locks.dashboard.conftest import Worker
from tests.locks.engine.conftest import Engine
from tests.locks.engine.test_waiting import WaitingServer

pytestmark = pytest.mark.django_db

WRITE = ("locks:read", "locks:write")


def lanes(reply) -> dict[str, int]:
    return {lane.name: lane.holds for lane in reply.context["timeline"].lanes}


@pytest.fixture
def held_twice(worker):
    for name, owner in (("deploy/api", "a"), ("deploy/api", "b"), ("deploy/web", "a"), ("cron", "c")):
        worker.gives_back(name, worker.takes(name, owner=owner).lease_id)
    worker.takes("deploy/web", owner="b")


class TestTimeline:
    def test_each_lock_has_a_lane_with_its_holds(self, visit, victor, now_url, held_twice):
        reply = visit(victor).get(f"{now_url}timeline")
        assert lanes(reply) == {"cron": 1, "deploy/api": 2, "deploy/web": 2}
        assert {share.owner: share.holds for share in reply.context["timeline"].owners} == {"a": 2, "b": 2, "c": 1}

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("?prefix=deploy/", {"deploy/api": 2, "deploy/web": 2}),
            ("?owner=a", {"deploy/api": 1, "deploy/web": 1}),
            ("?owner=b&prefix=deploy/w", {"deploy/web": 1}),
            ("?span=1h", {"cron": 1, "deploy/api": 2, "deploy/web": 2}),
            ("?span=nonsense&since=x&until=y", {"cron": 1, "deploy/api": 2, "deploy/web": 2}),
            ("?since=2020-01-01T00:00&until=2020-01-02T00:00", {}),
        ],
    )
    def test_the_filters_are_in_the_url(self, visit, victor, now_url, held_twice, query, expected):
        assert lanes(visit(victor).get(f"{now_url}timeline{query}")) == expected

    @pytest.mark.parametrize("end", ["since", "until"])
    @pytest.mark.parametrize("time", ["0001-01-01T00:00", "0001-01-01", "1969-12-31T23:59", "9999-12-31T23:59"])
    def test_a_time_at_the_ends_of_the_calendar_counts_as_absent(self, visit, victor, now_url, held_twice, end, time):
        reply = visit(victor).get(f"{now_url}timeline", {end: time})
        assert lanes(reply) == {"cron": 1, "deploy/api": 2, "deploy/web": 2}
        assert visit(victor).get(f"{now_url}activity", {end: time}).status_code == 200

    def test_a_period_in_the_past_shows_what_was_held_then(self, visit, victor, now_url, worker):
        """Also what ended or goes on after it."""
        lease = worker.takes("ended").lease_id
        worker.takes("held", ttl_seconds=3600)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE octo_lock SET acquired_at = now() - interval '2 hours'")
        worker.gives_back("ended", lease)
        hour_ago = timezone.now() - timedelta(hours=1)
        texts = {"since": f"{hour_ago - timedelta(minutes=5):%Y-%m-%dT%H:%M}", "until": f"{hour_ago:%Y-%m-%dT%H:%M}"}
        reply = visit(victor).get(f"{now_url}timeline", texts)
        assert [(lane.name, lane.percent) for lane in reply.context["timeline"].lanes] == [
            ("ended", 100),
            ("held", 100),
        ]

    def test_a_period_is_never_empty_nor_in_the_future(self):
        now = timezone.now()
        for filters in ({"since": "2999-01-01T00:00"}, {"until": "2999-01-01T00:00"}):
            period = queries.TimelineFilters(**filters).period(now)
            assert period.begin < period.end <= now

    def test_only_the_locks_with_the_most_time_are_shown(self, visit, victor, now_url, held_twice, monkeypatch):
        monkeypatch.setattr(queries, "MAX_LANES", 1)
        reply = visit(victor).get(f"{now_url}timeline")
        assert (len(lanes(reply)), reply.context["timeline"].others) == (1, 2)
        assert "And 2 more locks" in reply.content.decode()
        monkeypatch.setattr(queries, "MAX_HOLDS", 2)
        assert "some are left out" in visit(victor).get(f"{now_url}timeline").content.decode()

    def test_an_empty_one_says_what_it_would_show(self, visit, victor, now_url):
        assert "No lock was held" in visit(victor).get(f"{now_url}timeline").content.decode()

    def test_another_team_finds_nothing(self, visit, bob, red_space, now_url, held_twice):
        assert visit(bob).get(f"{now_url}timeline").status_code == 404
        assert lanes(visit(bob).get("/ui/red/main/timeline")) == {}


@pytest.fixture
def party(space):
    """party("a") is a worker with a token of its own, and what waits for it."""

    def create(owner: str):
        token = issue(space, owner, *WRITE)
        waiting = WaitingServer(Engine(token))
        return Worker(token), lambda name: run(enqueue([waiting.wait(name)]))

    return create


class TestWaitGraph:
    def test_the_longest_chain_comes_first(self, visit, victor, now_url, party):
        (first, _), (second, second_waits), (_third, third_waits) = party("first"), party("second"), party("third")
        first.takes("x")
        second.takes("y")
        first.takes("z")
        second_waits("x")
        third_waits("y")
        third_waits("z")
        graph = visit(victor).get(f"{now_url}waits").context["graph"]
        assert [[lock.name for lock in chain.locks] for chain in graph.chains] == [["y", "x"], ["z"]]
        assert [lock.held_by for lock in graph.chains[0].locks] == ["second", "first"]
        assert (graph.waiters, graph.locks, graph.cycles) == (3, 3, 0)

    def test_a_cycle_is_marked(self, visit, victor, now_url, party):
        (first, first_waits), (second, second_waits), (_, third_waits) = party("first"), party("second"), party("third")
        first.takes("x")
        second.takes("y")
        first_waits("y")
        second_waits("x")
        third_waits("x")
        reply = visit(victor).get(f"{now_url}waits")
        (chain,) = reply.context["graph"].chains
        assert chain.is_cycle
        assert {lock.name for lock in chain.locks} == {"x", "y"}
        assert "Cycle of 2 locks" in reply.content.decode()

    def test_a_lock_that_its_waiter_holds_itself_is_a_cycle_of_one(self, visit, victor, now_url, party):
        first, waits = party("first")
        first.takes("x")
        waits("x")
        assert "Cycle of 1 lock" in visit(victor).get(f"{now_url}waits").content.decode()

    def test_layers_of_many_locks_are_searched_by_holder(self, visit, victor, now_url, space):
        """Each of three workers holds 333 locks, and waits for all of the worker before."""
        for number, owner in enumerate(("a", "b", "c", "d")):
            worker = Worker(issue(space, owner, *WRITE))
            token = Token.objects.get(name=owner)
            before = Lock.objects.filter(name__startswith="abc"[number - 1]).order_by("pk") if number else []
            Waiter.objects.bulk_create(
                Waiter(space=space, name=lock.name, token=token, owner=owner, deadline_at="2999-01-01T00:00Z")
                for lock in before
            )
            for lock in range(333 if owner != "d" else 0):
                worker.takes(f"{owner}-{lock:03}", owner=owner, ttl_seconds=3600)
        graph = visit(victor).get(f"{now_url}waits").context["graph"]
        assert (graph.waiters, graph.locks, graph.cycles) == (999, 999, 0)
        assert [[lock.name for lock in chain.locks] for chain in graph.chains] == [
            [f"c-{number:03}", "b-000", "a-000"] for number in range(50)
        ]

    def test_without_waiters_it_says_what_it_would_show(self, visit, victor, bob, now_url, worker):
        worker.takes("x")
        assert "No request is waiting" in visit(victor).get(f"{now_url}waits").content.decode()
        assert visit(bob).get(f"{now_url}waits").status_code == 404
