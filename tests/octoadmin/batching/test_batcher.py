"""Requests that wait together share a statement, and each gets its own result, whatever happens to the others."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from locks.models import Event, Lock, Space
from octoadmin.batching import batcher, reconnecting
from octoadmin.wsgi_bridge.threads import Overloaded
from tests.conftest import issue
from tests.fault_proxy import PostgresProxy
from tests.octoadmin.batching.both_paths import TEST_SECONDS, Paths, counted, on_paths, row_locked, until_blocked
from tests.octoadmin.http_client import Reply, connected, head_of, read_reply
from tests.polling import async_until

pytestmark = pytest.mark.usefixtures("committed")


@pytest.fixture
def proxy() -> Iterator[PostgresProxy]:
    """The paths reach the database through this."""
    changed = connection.settings_dict
    original = dict(changed)
    with tempfile.TemporaryDirectory() as directory:
        proxy = PostgresProxy(Path(directory), params=connection.get_connection_params())
        changed.update(HOST=directory, PORT="5432")
        yield proxy
        proxy.close()
        changed.update(original)


def test_requests_that_arrive_together_are_one_statement(worker_token: str) -> None:
    before = counted("octoadmin_batch_size_count", operation="acquire")

    async def scenario(paths: Paths) -> None:
        outcomes = await asyncio.gather(*(paths.submit(f"job-{n}") for n in range(40)))
        assert [outcome.owner for outcome in outcomes] == [f"of job-{n}" for n in range(40)]
        assert {outcome.verdict for outcome in outcomes} == {"acquired"}

    on_paths(worker_token, scenario)
    assert counted("octoadmin_batch_size_count", operation="acquire") == before + 1
    assert Event.objects.filter(kind="acquired").count() == 40


def test_concurrent_requests_get_their_own_responses(worker_token: str) -> None:
    async def scenario(paths: Paths) -> None:
        replies = await asyncio.gather(*(paths.acquire(f"job-{n}", owner=f"owner-{n}") for n in range(40)))
        assert [reply.json["owner"] for reply in replies] == [f"owner-{n}" for n in range(40)]
        assert {reply.json["status"] for reply in replies} == {"acquired"}
        replies = await asyncio.gather(*(paths.call("GET", f"/locks/job-{n}") for n in range(40)))
        assert [reply.json["owner"] for reply in replies] == [f"owner-{n}" for n in range(40)]

    on_paths(worker_token, scenario)


def test_of_many_requests_for_one_name_one_acquires_it(worker_token: str) -> None:
    async def scenario(paths: Paths) -> None:
        for name in ("new", "new"):
            replies = await asyncio.gather(*(paths.acquire(name, owner=f"owner-{n}") for n in range(100)))
            (winner,) = [reply.json for reply in replies if reply.json["status"] == "acquired"]
            losers = [reply.json for reply in replies if reply.json["status"] == "held"]
            assert len(losers) == 99
            assert {loser["owner"] for loser in losers} == {winner["owner"]}
            released = await paths.call("POST", f"/locks/{name}/release", {"lease_id": winner["lease_id"]})
            assert (released.status, released.body) == (200, b"null")

    on_paths(worker_token, scenario, connections=2)
    assert [event.kind for event in Event.objects.filter(lock_name="new").order_by("id")] == [
        "acquired",
        "released",
    ] * 2


def test_a_client_that_disconnects_before_its_batch_gets_no_lease(
    worker_token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batch starts when the test releases the row, and not before."""
    monkeypatch.setattr(reconnecting, "LOCK_TIMEOUT", "0")
    monkeypatch.setattr(batcher, "STATEMENT_TIMEOUT", TEST_SECONDS)

    async def scenario(paths: Paths) -> None:
        first = await paths.acquire("busy")
        await paths.call("POST", "/locks/busy/release", {"lease_id": first.json["lease_id"]})
        async with row_locked("busy"):
            in_progress = asyncio.create_task(paths.acquire("busy"))
            await until_blocked()
            async with connected(paths.port) as (_, writer):
                writer.write(head_of("POST", "/locks/abandoned/acquire", paths.request_parts()[0]))
                (turn,) = await paths.until_waiting(1)
            await async_until(lambda: turn.disconnect is not None and turn.disconnect.done())
        assert (await in_progress).json["status"] == "acquired"
        assert (await paths.call("GET", "/locks/abandoned")).json["status"] == "free"

    on_paths(worker_token, scenario)
    assert not Event.objects.filter(lock_name="abandoned").exists()


def test_a_blocked_request_does_not_fail_the_others_of_its_batch(worker_token: str) -> None:
    """The statement fails as a whole; then Django runs each request alone."""
    before = counted("octoadmin_batch_fallbacks_total", reason="statement")

    async def scenario(paths: Paths) -> None:
        first = await paths.acquire("busy")
        await paths.call("POST", "/locks/busy/release", {"lease_id": first.json["lease_id"]})
        paths.delay_batch(3)
        async with row_locked("busy"):
            stuck = asyncio.create_task(paths.acquire("busy"))
            others = await asyncio.gather(*(paths.acquire(name) for name in ("a", "b")))
            assert not stuck.done()
        assert [reply.json["status"] for reply in (*others, await stuck)] == ["acquired"] * 3

    on_paths(worker_token, scenario)
    assert counted("octoadmin_batch_fallbacks_total", reason="statement") == before + 3
    kinds = Event.objects.filter(lock_name__in=("a", "b")).values_list("lock_name", "kind")
    assert sorted(kinds) == [("a", "acquired"), ("b", "acquired")]


def test_requests_beyond_the_queue_get_a_503(worker_token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "MAX_WAITING", 10)

    async def scenario(paths: Paths) -> None:
        paths.delay_batch(30)
        requests = [asyncio.create_task(paths.acquire(f"job-{n}")) for n in range(30)]
        answers = asyncio.as_completed(requests)
        rejected = [await next(answers) for _ in range(20)]
        for reply in rejected:
            assert (reply.status, reply.json["code"]) == (503, "unavailable")
            assert reply.headers["retry-after"] == "1"
        assert len(await paths.until_waiting(10)) == 10
        paths.start_batch()
        assert [(await reply).status for reply in answers] == [200] * 10

    on_paths(worker_token, scenario)


def test_while_the_database_is_unreachable_requests_fail_at_once(worker_token: str, proxy: PostgresProxy) -> None:
    async def scenario(paths: Paths) -> None:
        assert (await paths.acquire("a")).status == 200
        # A connection that was closed while idle is replaced without an error.
        proxy.cut()
        assert (await paths.acquire("b")).status == 200
        proxy.close()
        for _ in range(3):
            replies = await asyncio.gather(*(paths.acquire(f"c-{n}") for n in range(20)))
            assert {(reply.status, reply.json["code"]) for reply in replies} == {(503, "unavailable")}
            assert {reply.headers["retry-after"] for reply in replies} == {"1"}

    on_paths(worker_token, scenario)
    assert not Event.objects.filter(lock_name__startswith="c-").exists()


def test_a_statement_with_unknown_outcome_is_not_retried(
    worker_token: str, proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the statement was committed is unknown: the client gets a 503, and can retry with its Idempotency-Key."""

    async def scenario(paths: Paths) -> None:
        assert (await paths.acquire("warm")).status == 200
        proxy.freeze()
        with monkeypatch.context() as impatient:
            impatient.setattr(batcher, "STATEMENT_TIMEOUT", 1.0)
            replies = await asyncio.gather(*(paths.acquire(f"lost-{n}") for n in range(5)))
        assert {(reply.status, reply.json["code"]) for reply in replies} == {(503, "unavailable")}
        proxy.thaw()
        while (reply := await paths.acquire("back")).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert reply.json["status"] == "acquired"

    on_paths(worker_token, scenario)
    for number in range(5):
        assert Event.objects.filter(lock_name=f"lost-{number}").count() <= 1


def test_a_request_that_got_a_503_is_not_answered_again(
    worker_token: str, proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second response would be taken for that of the next request on the connection."""
    monkeypatch.setattr(batcher, "STATEMENT_TIMEOUT", 1.0)

    async def scenario(paths: Paths) -> None:
        headers = paths.request_parts()[0]
        async with connected(paths.port) as (reader, writer):

            async def acquire(name: str) -> Reply:
                writer.write(head_of("POST", f"/locks/{name}/acquire", headers))
                return await read_reply(reader)

            assert (await acquire("warm")).status == 200
            (worker,) = paths.batching.routes["acquire"].batcher._idle
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

    on_paths(worker_token, scenario)


def test_a_request_that_falls_back_counts_once_towards_the_rate_limit(space: Space) -> None:
    token = issue(space, "worker", "locks:read", "locks:write")
    Space.objects.filter(pk=space.pk).update(requests_per_second=1)
    Lock.objects.create(space=space, name="busy", fencing_token=1, lock_delay_seconds=0)
    before = counted("octoadmin_batch_fallbacks_total", reason="statement")

    async def scenario(paths: Paths) -> None:
        # From now on the limit is known: two at once, and one more each second.
        assert (await paths.call("GET", "/locks/busy")).status == 200
        async with row_locked("busy"):
            stuck = asyncio.create_task(paths.acquire("busy"))
            await async_until(lambda: counted("octoadmin_batch_fallbacks_total", reason="statement") > before)
        assert (await stuck).json["status"] == "acquired"
        assert (await paths.call("GET", "/locks/busy")).status == 200

    on_paths(token, scenario)


def test_a_rejected_request_does_not_fall_back(space: Space) -> None:
    token = issue(space, "reader", "locks:read")
    asked = counted("octoadmin_batch_size_sum", operation="acquire")
    answered = counted("octoadmin_requests_total", kind="batched", method="POST", status="4xx")

    async def scenario(paths: Paths) -> None:
        reply = await paths.acquire("job")
        assert (reply.status, reply.json["code"]) == (403, "forbidden")

    on_paths(token, scenario)
    assert counted("octoadmin_batch_size_sum", operation="acquire") == asked + 1
    assert counted("octoadmin_requests_total", kind="batched", method="POST", status="4xx") == answered + 1


def test_a_single_request_is_not_delayed_and_a_batch_waits_for_its_size(worker_token: str) -> None:
    """After a large batch the first request waits for others, but not for long."""

    async def scenario(paths: Paths) -> None:
        await asyncio.gather(*(paths.submit(f"job-{n}") for n in range(20)))
        before = counted("octoadmin_batch_size_count", operation="acquire")
        paths.delay_batch(20)
        batch = [paths.submit("first")]
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(await paths.until_waiting(1)) == 1
        batch += [paths.submit(f"other-{n}") for n in range(19)]
        assert {outcome.verdict for outcome in await asyncio.gather(*batch)} == {"acquired"}
        assert counted("octoadmin_batch_size_count", operation="acquire") == before + 1
        assert (await paths.acquire("alone")).json["status"] == "acquired"

    on_paths(worker_token, scenario)


def test_a_request_is_in_the_next_batch_however_many_another_space_has_sent(
    worker_token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batcher, "MAX_BATCH_SIZE", 4)
    monkeypatch.setattr(batcher, "MAX_WAITING", 20)

    async def scenario(paths: Paths) -> None:
        paths.delay_batch(22)
        flood = [paths.submit(f"flood-{n}", space_id=1) for n in range(20)]
        with pytest.raises(Overloaded):
            paths.submit("flood-20", space_id=1)
        # The queue is full, but not for another space.
        others = [paths.submit(f"other-{n}", space_id=2) for n in range(2)]
        assert {outcome.verdict for outcome in await asyncio.gather(*others)} == {"acquired"}
        assert sum(each.done() for each in flood) < 20
        assert {outcome.verdict for outcome in await asyncio.gather(*flood)} == {"acquired"}

    on_paths(worker_token, scenario)
