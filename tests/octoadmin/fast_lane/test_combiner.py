"""Requests that wait together are answered together, each with its own answer, whatever happens to the others."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from locks.models import Event, Lock, Space
from octoadmin.fast_lane import combiner, mending
from tests.conftest import issue
from tests.octoadmin.fast_lane.lanes import MAX_TALK, Lanes, counted, on_lanes, row_locked, somebody_waits
from tests.octoadmin.http_client import Reply, connected, head_of, read_reply
from tests.octoadmin.postgres_proxy import PostgresProxy

pytestmark = pytest.mark.usefixtures("committed")


@pytest.fixture
def proxy() -> Iterator[PostgresProxy]:
    """The lanes reach the database through this."""
    changed = connection.settings_dict
    original = dict(changed)
    with tempfile.TemporaryDirectory() as directory:
        proxy = PostgresProxy(Path(directory), params=connection.get_connection_params())
        changed.update(HOST=directory, PORT="5432")
        yield proxy
        proxy.close()
        changed.update(original)


def test_what_arrives_together_is_one_statement(worker_token: str) -> None:
    before = counted("octoadmin_lane_batch_size_count", operation="acquire")

    async def talk(lanes: Lanes) -> None:
        outcomes = await asyncio.gather(*(lanes.ask_combiner(f"job-{n}") for n in range(40)))
        assert [outcome.owner for outcome in outcomes] == [f"of job-{n}" for n in range(40)]
        assert {outcome.verdict for outcome in outcomes} == {"acquired"}

    on_lanes(worker_token, talk)
    assert counted("octoadmin_lane_batch_size_count", operation="acquire") == before + 1
    assert Event.objects.filter(kind="acquired").count() == 40


def test_who_asks_at_once_gets_an_answer_of_their_own(worker_token: str) -> None:
    async def talk(lanes: Lanes) -> None:
        replies = await asyncio.gather(*(lanes.acquire(f"job-{n}", owner=f"owner-{n}") for n in range(40)))
        assert [reply.json["owner"] for reply in replies] == [f"owner-{n}" for n in range(40)]
        assert {reply.json["status"] for reply in replies} == {"acquired"}
        replies = await asyncio.gather(*(lanes.call("GET", f"/locks/job-{n}") for n in range(40)))
        assert [reply.json["owner"] for reply in replies] == [f"owner-{n}" for n in range(40)]

    on_lanes(worker_token, talk)


def test_of_many_who_ask_for_one_name_one_gets_it(worker_token: str) -> None:
    async def talk(lanes: Lanes) -> None:
        for name in ("new", "new"):
            replies = await asyncio.gather(*(lanes.acquire(name, owner=f"owner-{n}") for n in range(100)))
            (winner,) = [reply.json for reply in replies if reply.json["status"] == "acquired"]
            losers = [reply.json for reply in replies if reply.json["status"] == "held"]
            assert len(losers) == 99
            assert {loser["owner"] for loser in losers} == {winner["owner"]}
            released = await lanes.call("POST", f"/locks/{name}/release", {"lease_id": winner["lease_id"]})
            assert (released.status, released.body) == (200, b"null")

    on_lanes(worker_token, talk, connections=2)
    assert [event.kind for event in Event.objects.filter(lock_name="new").order_by("id")] == [
        "acquired",
        "released",
    ] * 2


def test_who_hangs_up_before_the_turn_gets_no_lease(worker_token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn comes when the test lets go of the row, and not before."""
    monkeypatch.setattr(mending, "LOCK_TIMEOUT", "SET lock_timeout = 0")
    monkeypatch.setattr(combiner, "ANSWER_SECONDS", MAX_TALK)

    async def talk(lanes: Lanes) -> None:
        first = await lanes.acquire("busy")
        await lanes.call("POST", "/locks/busy/release", {"lease_id": first.json["lease_id"]})
        async with row_locked("busy"):
            under_way = asyncio.create_task(lanes.acquire("busy"))
            await somebody_waits()
            async with connected(lanes.port) as (_, writer):
                writer.write(head_of("POST", "/locks/abandoned/acquire", lanes.words()[0]))
                (turn,) = await lanes.until_they_wait(1)
            while not turn.disconnected:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert (await under_way).json["status"] == "acquired"
        assert (await lanes.call("GET", "/locks/abandoned")).json["status"] == "free"

    on_lanes(worker_token, talk)
    assert not Event.objects.filter(lock_name="abandoned").exists()


def test_one_that_cannot_be_decided_does_not_spoil_the_others(worker_token: str) -> None:
    """The statement fails as a whole; then each is asked alone, by the sync lane."""
    before = counted("octoadmin_lane_left_to_sync_total", reason="statement")

    async def talk(lanes: Lanes) -> None:
        first = await lanes.acquire("busy")
        await lanes.call("POST", "/locks/busy/release", {"lease_id": first.json["lease_id"]})
        lanes.gather(3)
        async with row_locked("busy"):
            stuck = asyncio.create_task(lanes.acquire("busy"))
            others = await asyncio.gather(*(lanes.acquire(name) for name in ("a", "b")))
            assert not stuck.done()
        assert [reply.json["status"] for reply in (*others, await stuck)] == ["acquired"] * 3

    on_lanes(worker_token, talk)
    assert counted("octoadmin_lane_left_to_sync_total", reason="statement") == before + 3
    kinds = Event.objects.filter(lock_name__in=("a", "b")).values_list("lock_name", "kind")
    assert sorted(kinds) == [("a", "acquired"), ("b", "acquired")]


def test_beyond_the_queue_callers_are_told_to_come_back(worker_token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combiner, "MAX_WAITING", 10)

    async def talk(lanes: Lanes) -> None:
        lanes.gather(30)
        everybody = [asyncio.create_task(lanes.acquire(f"job-{n}")) for n in range(30)]
        answers = asyncio.as_completed(everybody)
        turned_away = [await next(answers) for _ in range(20)]
        for reply in turned_away:
            assert (reply.status, reply.json["code"]) == (503, "unavailable")
            assert reply.headers["retry-after"] == "1"
        assert len(await lanes.until_they_wait(10)) == 10
        lanes.begin()
        assert [(await reply).status for reply in answers] == [200] * 10

    on_lanes(worker_token, talk)


def test_while_the_database_is_away_everybody_is_told_at_once(worker_token: str, proxy: PostgresProxy) -> None:
    async def talk(lanes: Lanes) -> None:
        assert (await lanes.acquire("a")).status == 200
        # A connection that ended while nobody used it is replaced, and nobody notices.
        proxy.cut()
        assert (await lanes.acquire("b")).status == 200
        proxy.close()
        for _ in range(3):
            replies = await asyncio.gather(*(lanes.acquire(f"c-{n}") for n in range(20)))
            assert {(reply.status, reply.json["code"]) for reply in replies} == {(503, "unavailable")}
            assert {reply.headers["retry-after"] for reply in replies} == {"1"}

    on_lanes(worker_token, talk)
    assert not Event.objects.filter(lock_name__startswith="c-").exists()


def test_an_answer_lost_on_the_way_is_never_asked_for_again(
    worker_token: str, proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the statement was committed is not known: the caller hears 503, and its key brings the lease back."""

    async def talk(lanes: Lanes) -> None:
        assert (await lanes.acquire("warm")).status == 200
        proxy.freeze()
        with monkeypatch.context() as impatient:
            impatient.setattr(combiner, "ANSWER_SECONDS", 1.0)
            replies = await asyncio.gather(*(lanes.acquire(f"lost-{n}") for n in range(5)))
        assert {(reply.status, reply.json["code"]) for reply in replies} == {(503, "unavailable")}
        proxy.thaw()
        while (reply := await lanes.acquire("back")).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert reply.json["status"] == "acquired"

    on_lanes(worker_token, talk)
    for number in range(5):
        assert Event.objects.filter(lock_name=f"lost-{number}").count() <= 1


def test_who_was_told_that_the_database_does_not_answer_is_told_nothing_else_when_it_does(
    worker_token: str, proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second answer would be taken for that of the next request on the connection."""
    monkeypatch.setattr(combiner, "ANSWER_SECONDS", 1.0)

    async def talk(lanes: Lanes) -> None:
        headers = lanes.words()[0]
        async with connected(lanes.port) as (reader, writer):

            async def acquire(name: str) -> Reply:
                writer.write(head_of("POST", f"/locks/{name}/acquire", headers))
                return await read_reply(reader)

            assert (await acquire("warm")).status == 200
            (worker,) = lanes.fast._ways["acquire"].combiner._idle
            proxy.freeze()
            assert (await acquire("lost")).status == 503
            proxy.thaw()
            assert worker.task is not None
            await worker.task
            for _ in range(200):
                if (reply := await acquire("back")).status == 200:
                    break
                await asyncio.sleep(0.05)
            assert (reply.json["name"], reply.json["status"]) == ("back", "acquired")

    on_lanes(worker_token, talk)


def test_what_the_sync_lane_has_to_answer_counts_once_towards_the_limit(space: Space) -> None:
    token = issue(space, "worker", "locks:read", "locks:write")
    Space.objects.filter(pk=space.pk).update(requests_per_second=1)
    Lock.objects.create(space=space, name="busy", fencing_token=1, lock_delay_seconds=0)
    before = counted("octoadmin_lane_left_to_sync_total", reason="statement")

    async def talk(lanes: Lanes) -> None:
        # From now on the limit is known: two at once, and one more each second.
        assert (await lanes.call("GET", "/locks/busy")).status == 200
        async with row_locked("busy"):
            stuck = asyncio.create_task(lanes.acquire("busy"))
            for _ in range(500):
                if counted("octoadmin_lane_left_to_sync_total", reason="statement") > before:
                    break
                await asyncio.sleep(0.01)
        assert (await stuck).json["status"] == "acquired"
        assert (await lanes.call("GET", "/locks/busy")).status == 200

    on_lanes(token, talk)


def test_a_refusal_is_answered_here(space: Space) -> None:
    token = issue(space, "reader", "locks:read")
    asked = counted("octoadmin_lane_batch_size_sum", operation="acquire")
    answered = counted("octoadmin_requests_total", lane="fast", method="POST", status="4xx")

    async def talk(lanes: Lanes) -> None:
        reply = await lanes.acquire("job")
        assert (reply.status, reply.json["code"]) == (403, "forbidden")

    on_lanes(token, talk)
    assert counted("octoadmin_lane_batch_size_sum", operation="acquire") == asked + 1
    assert counted("octoadmin_requests_total", lane="fast", method="POST", status="4xx") == answered + 1


def test_who_asks_alone_waits_for_nobody_and_a_crowd_gathers(worker_token: str) -> None:
    """After a crowd the first to ask again waits for the others, but not for long."""

    async def talk(lanes: Lanes) -> None:
        await asyncio.gather(*(lanes.ask_combiner(f"job-{n}") for n in range(20)))
        before = counted("octoadmin_lane_batch_size_count", operation="acquire")
        lanes.gather(20)
        crowd = [lanes.ask_combiner("first")]
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(await lanes.until_they_wait(1)) == 1
        crowd += [lanes.ask_combiner(f"other-{n}") for n in range(19)]
        assert {outcome.verdict for outcome in await asyncio.gather(*crowd)} == {"acquired"}
        assert counted("octoadmin_lane_batch_size_count", operation="acquire") == before + 1
        assert (await lanes.acquire("alone")).json["status"] == "acquired"

    on_lanes(worker_token, talk)
