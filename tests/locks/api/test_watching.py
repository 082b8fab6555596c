"""Watching: a snapshot, then every transition once and in order, whatever happens to the connection."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import UUID

import pytest
from django.db import connection, transaction

from locks.api.views import watch as watch_views
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire, force_release, open_session, release, renew
from locks.events.stream import sse, streaming
from locks.events.stream.memory import StreamMemory, stream_memory
from locks.events.stream.snapshot import read_snapshot
from locks.events.stream.watchers import Watcher
from locks.models import Lock, Space, Token
from locks.token_format import parse
from tests.conftest import issue
from tests.locks.events.event_stream import EventStream, ReceivedEvent
from tests.octoadmin.asgi_client import Client
from tests.polling import async_until
from tests.servers import RunningServer, running_server

Open = Callable[..., EventStream]


class Worker:
    """Acquires and releases many locks at a time, straight through the engine."""

    def __init__(self, token: str) -> None:
        presented = parse(token)
        assert presented is not None
        self.digest = presented.digest.hex()

    def acquire(self, *names: str, **options) -> dict[str, UUID]:
        batch = [requests.Acquire(digest=self.digest, name=name, **options) for name in names]
        return {row.name: row.lease_id for row in run(acquire(batch))}

    def release(self, leases: dict[str, UUID]) -> None:
        run(release([requests.Release(digest=self.digest, name=name, lease_id=leases[name]) for name in leases]))


@pytest.fixture
def worker(worker_token: str) -> Worker:
    return Worker(worker_token)


@pytest.fixture
def watch(server: RunningServer, worker_token: str) -> Iterator[Open]:
    opened: list[EventStream] = []

    def open_stream(path: str, *, token: str | None = worker_token, last_event_id: str | None = None) -> EventStream:
        stream = EventStream(server.port, path, token, last_event_id).connect()
        opened.append(stream)
        return stream

    yield open_stream
    for stream in opened:
        stream.close()


def next_event(events: Iterator[ReceivedEvent], *, ignoring: str = "renewed") -> tuple[str, str]:
    received = next(event for event in events if event.event != ignoring)
    return received.event, received.data["lock_name"]


def test_one_watcher_gets_the_events_of_a_lock_and_another_those_of_a_prefix(
    watch, worker, operator_token, space, red_space
) -> None:
    held = worker.acquire("jobs/a", "jobs/b", "else", metadata="build=1", owner="runner-7")
    stranger = Worker(issue(red_space, "red", "locks:read", "locks:write"))
    one, many = watch("/locks/jobs%2Fa/watch"), watch("/watch?prefix=jobs/")
    narrow = watch("/watch", token=issue(space, "narrow", "locks:read", prefixes=["jobs/b"]))
    ones, manys, narrows = one.events(), many.events(), narrow.events()
    snapshot = next(ones)
    assert snapshot.event == "snapshot"
    assert snapshot.id
    (lock,) = snapshot.data["locks"]
    assert (lock["name"], lock["status"], lock["owner"], lock["metadata"]) == ("jobs/a", "held", "runner-7", "build=1")
    assert [lock["name"] for lock in next(manys).data["locks"]] == ["jobs/a", "jobs/b"]
    assert [lock["name"] for lock in next(narrows).data["locks"]] == ["jobs/b"]

    stranger.acquire("jobs/a", "jobs/c")
    worker.release({"jobs/a": held["jobs/a"]})
    operator = parse(operator_token).digest.hex()
    run(force_release([requests.ForceRelease(digest=operator, name="jobs/b", reason="stuck")]))
    again = worker.acquire("jobs/a", metadata="build=2", owner="runner-8", ttl_seconds=60)
    released, acquired = next(ones), next(ones)
    assert (released.event, released.data["owner"], released.data["metadata"]) == ("released", "runner-7", "build=1")
    assert released.data["fencing_token"] == lock["fencing_token"] < acquired.data["fencing_token"]
    assert (acquired.event, acquired.data["metadata"]) == ("acquired", "build=2")
    assert acquired.data["expires_at"] > acquired.data["observed_at"]
    assert [next_event(manys) for _ in range(3)] == [
        ("released", "jobs/a"), ("force_released", "jobs/b"), ("acquired", "jobs/a"),
    ]  # fmt: skip
    assert next_event(narrows) == ("force_released", "jobs/b")

    digest = worker.digest
    run(renew([requests.Renew(digest=digest, name="jobs/a", lease_id=again["jobs/a"], ttl_seconds=600)]))
    renewed = next(ones)
    assert (renewed.event, renewed.id) == ("renewed", None)
    assert renewed.data["expires_at"] > acquired.data["expires_at"]
    for received in (snapshot, released, acquired, renewed):
        assert "lease_id" not in received.data
        assert str(again["jobs/a"]) not in str(received.data)

    worker.release(again)
    session = run(open_session(requests.OpenSession(digest=digest, ttl_seconds=60)))
    bound = worker.acquire("jobs/a", ttl_seconds=3600, session_id=session.session_id)
    ends_at = session.expires_at.isoformat().replace("+00:00", "Z")
    acquired = next(received for received in ones if received.event == "acquired")
    # A poll that finds the acquire and the renew together reports the acquire only.
    run(renew([requests.Renew(digest=digest, name="jobs/a", lease_id=bound["jobs/a"])]))
    renewed = next(received for received in ones if received.event == "renewed")
    assert (acquired.data["expires_at"], renewed.data["expires_at"]) == (ends_at, ends_at)


def test_a_revoked_token_loses_its_streams(watch, worker_token) -> None:
    stream = watch("/watch")
    events = stream.events()
    assert next(events).event == "snapshot"
    Token.objects.filter(public_id=parse(worker_token).public_id).update(revoked_at="2026-01-01T00:00Z")
    assert list(events) == []
    assert stream.comments == ["The token is no longer valid."]
    assert stream.connect().status == 401


@pytest.mark.timeout(120)
def test_a_watcher_that_is_disconnected_ten_times_and_whose_server_dies_sees_each_of_5000_transitions_once(
    committed, worker_token, worker
) -> None:
    names, rounds, cuts = [f"n{number}" for number in range(100)], 25, 10
    expected = [kind for _ in range(rounds) for kind in ("acquired", "released")]
    transitions = len(names) * len(expected)
    assert transitions == 5000
    done = threading.Event()

    def work() -> None:
        for _ in range(rounds):
            worker.release(worker.acquire(*names, metadata="m"))
            done.wait(0.02)
        connection.close()

    received: list[ReceivedEvent] = []
    with running_server(os.environ["DATABASE_URL"]) as server, ThreadPoolExecutor(1) as thread:
        stream = EventStream(server.port, "/watch", worker_token).connect()
        assert next(stream.events()).event == "snapshot"
        working = thread.submit(work)
        for cut in range(cuts):
            goal = (cut + 1) * transitions // (cuts + 1)
            for event in stream.events():
                received.append(event)
                if len(received) >= goal:
                    break
            if cut == cuts // 2:
                server.kill()
                server.start()
            assert stream.connect().status == 200
        for event in stream.events():
            received.append(event)
            if len(received) >= transitions:
                break
        working.result()
        stream.close()
    assert len({event.id for event in received}) == len(received) == transitions
    for name in names:
        mine = [event for event in received if event.data["lock_name"] == name]
        assert [event.event for event in mine] == expected
        assert [event.data["fencing_token"] for event in mine] == sorted(e.data["fencing_token"] for e in mine)


def test_what_a_snapshot_shows_is_not_sent_again_and_what_it_does_not_show_is(watch, worker) -> None:
    """Two transactions, the later of which commits first; the watcher connects in between, and reconnects."""
    with transaction.atomic():
        worker.acquire("began-first")
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: (worker.acquire("committed-first"), connection.close())).result()
        stream = watch("/watch")
        events = stream.events()
        assert [lock["name"] for lock in next(events).data["locks"]] == ["committed-first"]
        stream.connect()
    held = worker.acquire("later")
    events = stream.events()
    assert [next_event(events) for _ in range(2)] == [("acquired", "began-first"), ("acquired", "later")]
    stream.connect()
    worker.release(held)
    assert next_event(stream.events()) == ("released", "later")


def test_what_a_snapshot_does_not_show_is_sent_though_it_was_written_long_after_its_transaction_began(
    watch, worker
) -> None:
    held = worker.acquire("began-first")
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="began-first")
        stream = watch("/watch")
        events = stream.events()
        assert [lock["name"] for lock in next(events).data["locks"]] == ["began-first"]
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: (worker.acquire("committed-first"), connection.close())).result()
        worker.release(held)
    assert next_event(events) == ("acquired", "committed-first")
    stream.connect()
    assert next_event(stream.events()) == ("released", "began-first")


def test_a_slow_reader_is_disconnected_and_asked_to_reconnect(committed, worker, worker_token, monkeypatch) -> None:
    token = Token.objects.get(public_id=parse(worker_token).public_id)
    monkeypatch.setattr("locks.events.stream.watchers.MAX_PENDING_EVENTS", 20)

    async def read_slowly() -> str:
        resume, blocked = asyncio.Event(), asyncio.Event()

        async def before_taking(message) -> None:
            if b"n0" in message["body"]:
                blocked.set()
                await resume.wait()

        client = Client(before_taking=before_taking)
        watcher = await asyncio.to_thread(start)
        sending = asyncio.create_task(streaming.stream(watcher, client.receive, client.send))
        await asyncio.to_thread(work, ["n0"])
        await blocked.wait()
        await asyncio.to_thread(work, [f"n{number}" for number in range(1, 60)])
        await async_until(lambda: watcher.close_reason is not None)
        resume.set()
        await sending
        assert client.reply.finished
        return b"".join(message["body"] for message in client.reply.messages).decode()

    def start() -> Watcher:
        with read_snapshot() as snapshot:
            cursor = snapshot.cursor
        connection.close()
        account = stream_memory.open(token.space.team_id)
        return Watcher(space_id=token.space_id, token_id=token.pk, name=None, cursor=cursor, account=account)

    def work(names: list[str]) -> None:
        worker.acquire(*names)
        connection.close()

    with ThreadPoolExecutor(1) as thread:
        text = thread.submit(asyncio.run, read_slowly()).result()
    assert text.count("event: ") == 1
    assert text.endswith(": You read too slowly. Reconnect with Last-Event-ID to resume.\n\n")


@pytest.mark.django_db
def test_watching_is_refused_as_everywhere(call, space, red_space) -> None:
    assert call("GET", "/watch", token=None).json()["code"] == "authentication_required"
    assert call("GET", "/locks/a/watch", token="octo_nonsense").json()["code"] == "authentication_failed"
    blind = issue(space, "blind", "audit:read")
    assert call("GET", "/watch", token=blind).json()["details"] == "The token lacks the scope 'locks:read'."
    bound = issue(space, "bound", "locks:read", prefixes=["jobs/"])
    refused = call("GET", "/locks/other/watch", token=bound)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert call("GET", "/locks/a//b/watch").json()["code"] == "invalid_lock_name"
    assert call("POST", "/watch").status_code == 405


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["7", "not an id", "1-2-3-", "1-2-3-4", "1-8fffffffffffffff-3", "f" * 5000])
def test_an_invalid_last_event_id_is_refused(call, text) -> None:
    refused = call("GET", "/watch", **{"Last-Event-ID": text})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("16b0c0b4000-2-3", id="from before the oldest month that is kept"),
        pytest.param("ffffffffff-7fffffffffff-3", id="from another server's history"),
    ],
)
def test_a_cursor_older_than_the_history_is_refused(committed, call, text) -> None:
    refused = call("GET", "/watch", **{"Last-Event-ID": text})
    assert (refused.status_code, refused.json()["code"]) == (410, "position_expired")
    assert "Reconnect without it" in refused.json()["details"]


@pytest.mark.django_db
def test_the_number_of_watchers_is_limited(call, monkeypatch) -> None:
    monkeypatch.setattr(watch_views, "MAX_WATCHERS_PER_TEAM", 0)
    refused = call("GET", "/watch")
    assert (refused.status_code, refused.json()["code"], refused["Retry-After"]) == (503, "unavailable", "1")


def test_a_snapshot_of_many_locks_comes_in_pieces(committed, worker, call, monkeypatch) -> None:
    monkeypatch.setattr(watch_views, "MAX_LOCKS_PER_PIECE", 10)
    worker.acquire(*(f"n{number:02}" for number in range(25)))
    (empty,) = call("GET", "/watch?prefix=else").stream.args[0].snapshot
    assert b'"locks":[],"complete":true' in empty
    response = call("GET", "/watch")
    assert (response.status_code, response["Content-Type"]) == (200, "text/event-stream")
    assert isinstance(response.stream, partial)
    pieces = response.stream.args[0].snapshot
    assert [piece.count(b'"name"') for piece in pieces] == [10, 10, 5]
    assert [b"id: " in piece for piece in pieces] == [False, False, True]
    assert [b'"complete":true' in piece for piece in pieces] == [False, False, True]
    monkeypatch.setattr(watch_views, "MAX_LOCKS", 24)
    assert call("GET", "/watch").json()["code"] == "invalid_input"


def test_snapshots_that_are_not_read_are_limited_for_each_team(
    committed, worker, call, space, red_space, monkeypatch
) -> None:
    # What streams of earlier tests hold until they are collected.
    before = stream_memory.total
    monkeypatch.setattr(stream_memory, "max_bytes_per_team", 12_000)
    worker.acquire(*(f"n{number}" for number in range(4)), metadata="x" * 1000)
    stranger = issue(red_space, "stranger", "locks:read")
    other_space = Space.objects.create(team=space.team, slug="other", name="Other")
    elsewhere = issue(other_space, "elsewhere", "locks:read", "locks:write")
    Worker(elsewhere).acquire(*(f"n{number}" for number in range(4)), metadata="x" * 1000)
    unread = [call("GET", "/watch"), call("GET", "/watch", token=elsewhere)]
    refused = call("GET", "/watch")
    assert (refused.status_code, refused.json()["code"], refused["Retry-After"]) == (503, "unavailable", "1")
    assert call("GET", "/watch", token=stranger).status_code == 200

    async def read() -> None:
        client = Client()
        reading = asyncio.create_task(unread[0].stream(client.receive, client.send))
        await async_until(lambda: client.reply.messages)
        assert client.reply.messages[0]["body"].count(b"x" * 1000) == 4
        assert stream_memory.total - before < 12_000
        client.departed.set()
        await reading

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, read()).result()
    assert call("GET", "/watch").status_code == 200


def test_a_snapshot_has_a_limit_in_bytes(committed, worker, call, monkeypatch) -> None:
    monkeypatch.setattr(watch_views, "MAX_SNAPSHOT_BYTES", 3_000)
    worker.acquire("a", "b", "c", metadata="x" * 1000)
    assert call("GET", "/watch?prefix=a").status_code == 200
    refused = call("GET", "/watch")
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")


def test_the_stream_that_waits_longest_ends_when_memory_is_short(monkeypatch) -> None:
    monkeypatch.setattr("locks.events.stream.memory.MIN_STALL_SECONDS", 0.05)
    memory = StreamMemory(max_bytes=100, max_bytes_per_team=60)

    async def scenario() -> None:
        never = asyncio.Event()

        async def stall(_message) -> None:
            await never.wait()

        async def stream(space_id: int) -> None:
            account = memory.open(space_id)
            assert account.take(30)
            client = Client(before_taking=stall)
            async with sse.EventStream(client.receive, client.send, account) as events:
                await events.send(b"x" * 30)
            account.close()

        streams = []
        for space_id in (1, 2, 2):
            streams.append(asyncio.create_task(stream(space_id)))
            await asyncio.sleep(0.01)
        newcomer = memory.open(2)
        assert not newcomer.take(10)
        await asyncio.sleep(0.02)
        assert not any(each.done() for each in streams), "none has waited for long"
        await asyncio.sleep(0.05)
        assert not newcomer.take(10)
        await asyncio.wait_for(streams[1], 5)
        assert not streams[0].done(), "another space has room"
        assert newcomer.take(10)
        assert not memory.open(3).take(50)
        await asyncio.wait_for(streams[0], 5)
        for each in streams:
            each.cancel()

    asyncio.run(scenario())
