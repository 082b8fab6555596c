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

from locks.api.views import watch
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire, force_release, open_session, release, renew
from locks.events.stream import streaming
from locks.events.stream.snapshot import one_snapshot
from locks.events.stream.watchers import Watcher
from locks.models import Lock, Token
from locks.token_format import parse
from tests.conftest import issue
from tests.locks.events.event_stream import EventStream, Heard
from tests.octoadmin.asgi_client import Client
from tests.servers import RunningServer, running_server

Open = Callable[..., EventStream]


class Worker:
    """Takes and gives back many locks at a time, straight through the engine."""

    def __init__(self, token: str) -> None:
        presented = parse(token)
        assert presented is not None
        self.digest = presented.digest.hex()

    def takes(self, *names: str, **terms) -> dict[str, UUID]:
        asked = [requests.Acquire(digest=self.digest, name=name, **terms) for name in names]
        return {outcome.name: outcome.lease_id for outcome in run(acquire(asked))}

    def gives_back(self, leases: dict[str, UUID]) -> None:
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


def next_one(events: Iterator[Heard], *, besides: str = "renewed") -> tuple[str, str]:
    heard = next(event for event in events if event.event != besides)
    return heard.event, heard.data["lock_name"]


def test_a_watcher_hears_of_one_lock_and_another_of_a_prefix(watch, worker, operator_token, space, red_space) -> None:
    held = worker.takes("jobs/a", "jobs/b", "else", metadata="build=1", owner="runner-7")
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

    stranger.takes("jobs/a", "jobs/c")
    worker.gives_back({"jobs/a": held["jobs/a"]})
    operator = parse(operator_token).digest.hex()
    run(force_release([requests.ForceRelease(digest=operator, name="jobs/b", reason="stuck")]))
    again = worker.takes("jobs/a", metadata="build=2", owner="runner-8", ttl_seconds=60)
    released, acquired = next(ones), next(ones)
    assert (released.event, released.data["owner"], released.data["metadata"]) == ("released", "runner-7", "build=1")
    assert released.data["fencing_token"] == lock["fencing_token"] < acquired.data["fencing_token"]
    assert (acquired.event, acquired.data["metadata"]) == ("acquired", "build=2")
    assert acquired.data["expires_at"] > acquired.data["observed_at"]
    assert [next_one(manys) for _ in range(3)] == [
        ("released", "jobs/a"), ("force_released", "jobs/b"), ("acquired", "jobs/a"),
    ]  # fmt: skip
    assert next_one(narrows) == ("force_released", "jobs/b")

    digest = worker.digest
    run(renew([requests.Renew(digest=digest, name="jobs/a", lease_id=again["jobs/a"], ttl_seconds=600)]))
    renewed = next(ones)
    assert (renewed.event, renewed.id) == ("renewed", None)
    assert renewed.data["expires_at"] > acquired.data["expires_at"]
    for heard in (snapshot, released, acquired, renewed):
        assert "lease_id" not in heard.data
        assert str(again["jobs/a"]) not in str(heard.data)

    worker.gives_back(again)
    session = run(open_session(requests.OpenSession(digest=digest, ttl_seconds=60)))
    tied = worker.takes("jobs/a", ttl_seconds=3600, session_id=session.session_id)
    run(renew([requests.Renew(digest=digest, name="jobs/a", lease_id=tied["jobs/a"])]))
    ends_at = session.expires_at.isoformat().replace("+00:00", "Z")
    for event in ("acquired", "renewed"):
        heard = next(heard for heard in ones if heard.event == event)
        assert heard.data["expires_at"] == ends_at


def test_a_revoked_token_loses_its_streams(watch, worker_token) -> None:
    stream = watch("/watch")
    events = stream.events()
    assert next(events).event == "snapshot"
    Token.objects.filter(public_id=parse(worker_token).public_id).update(revoked_at="2026-01-01T00:00Z")
    assert list(events) == []
    assert stream.comments == ["The token is no longer valid."]
    assert stream.connect().status == 401


@pytest.mark.timeout(120)
def test_a_watcher_that_is_cut_off_ten_times_and_whose_server_dies_sees_each_of_5000_transitions_once(
    committed, worker_token, worker
) -> None:
    names, rounds, cuts = [f"n{number}" for number in range(100)], 25, 10
    expected = [kind for _ in range(rounds) for kind in ("acquired", "released")]
    transitions = len(names) * len(expected)
    assert transitions == 5000
    done = threading.Event()

    def work() -> None:
        for _ in range(rounds):
            worker.gives_back(worker.takes(*names, metadata="m"))
            done.wait(0.02)
        connection.close()

    heard: list[Heard] = []
    with running_server(os.environ["DATABASE_URL"]) as server, ThreadPoolExecutor(1) as thread:
        stream = EventStream(server.port, "/watch", worker_token).connect()
        assert next(stream.events()).event == "snapshot"
        working = thread.submit(work)
        for cut in range(cuts):
            goal = (cut + 1) * transitions // (cuts + 1)
            for event in stream.events():
                heard.append(event)
                if len(heard) >= goal:
                    break
            if cut == cuts // 2:
                server.kill()
                server.start()
            assert stream.connect().status == 200
        for event in stream.events():
            heard.append(event)
            if len(heard) >= transitions:
                break
        working.result()
        stream.close()
    assert len({event.id for event in heard}) == len(heard) == transitions
    for name in names:
        mine = [event for event in heard if event.data["lock_name"] == name]
        assert [event.event for event in mine] == expected
        assert [event.data["fencing_token"] for event in mine] == sorted(e.data["fencing_token"] for e in mine)


def test_what_a_snapshot_shows_is_not_told_again_and_what_it_does_not_show_is(watch, worker) -> None:
    """Two transactions, the later of which commits first; the watcher comes in between, and comes back."""
    with transaction.atomic():
        worker.takes("began-first")
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: (worker.takes("committed-first"), connection.close())).result()
        stream = watch("/watch")
        events = stream.events()
        assert [lock["name"] for lock in next(events).data["locks"]] == ["committed-first"]
        stream.connect()
    held = worker.takes("later")
    events = stream.events()
    assert [next_one(events) for _ in range(2)] == [("acquired", "began-first"), ("acquired", "later")]
    stream.connect()
    worker.gives_back(held)
    assert next_one(stream.events()) == ("released", "later")


def test_what_a_snapshot_does_not_show_is_told_though_it_was_written_long_after_its_transaction_began(
    watch, worker
) -> None:
    held = worker.takes("began-first")
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="began-first")
        stream = watch("/watch")
        events = stream.events()
        assert [lock["name"] for lock in next(events).data["locks"]] == ["began-first"]
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: (worker.takes("committed-first"), connection.close())).result()
        worker.gives_back(held)
    assert next_one(events) == ("acquired", "committed-first")
    stream.connect()
    assert next_one(stream.events()) == ("released", "began-first")


def test_a_slow_reader_is_cut_off_and_told_to_come_back(committed, worker, worker_token, monkeypatch) -> None:
    token = Token.objects.get(public_id=parse(worker_token).public_id)
    monkeypatch.setattr("locks.events.stream.watchers.MAX_EVENTS", 20)

    async def read_slowly() -> str:
        takes, taken = asyncio.Event(), asyncio.Event()

        async def take(message) -> None:
            if b"n0" in message["body"]:
                taken.set()
                await takes.wait()

        client = Client(before_taking=take)
        watcher = await asyncio.to_thread(start)
        telling = asyncio.create_task(streaming.stream(watcher, [b": hello\n\n"], client.receive, client.send))
        await asyncio.to_thread(work, ["n0"])
        await taken.wait()
        await asyncio.to_thread(work, [f"n{number}" for number in range(1, 60)])
        for _ in range(1000):
            if watcher.ending is not None:
                break
            await asyncio.sleep(0.01)
        takes.set()
        await telling
        assert client.reply.finished
        return b"".join(message["body"] for message in client.reply.messages).decode()

    def start() -> Watcher:
        with one_snapshot() as snapshot:
            bookmark = snapshot.bookmark
        connection.close()
        return Watcher(space_id=token.space_id, token_id=token.pk, name=None, bookmark=bookmark)

    def work(names: list[str]) -> None:
        worker.takes(*names)
        connection.close()

    with ThreadPoolExecutor(1) as thread:
        text = thread.submit(asyncio.run, read_slowly()).result()
    assert text.count("event: ") == 1
    assert text.endswith(": You read too slowly. Come back with Last-Event-ID to go on.\n\n")


@pytest.mark.django_db
def test_who_may_not_watch_is_told_as_everywhere(call, space, red_space) -> None:
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
def test_a_last_event_id_that_is_none_is_refused(call, text) -> None:
    refused = call("GET", "/watch", **{"Last-Event-ID": text})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("16b0c0b4000-2-3", id="from before the oldest month that is kept"),
        pytest.param("ffffffffff-7fffffffffff-3", id="from another server's history"),
    ],
)
def test_whoever_was_away_too_long_is_told_to_start_anew(committed, call, text) -> None:
    refused = call("GET", "/watch", **{"Last-Event-ID": text})
    assert (refused.status_code, refused.json()["code"]) == (410, "position_expired")
    assert "Start anew" in refused.json()["details"]


@pytest.mark.django_db
def test_there_are_only_so_many_watchers(call, monkeypatch) -> None:
    monkeypatch.setattr(watch, "MAX_IN_A_SPACE", 0)
    refused = call("GET", "/watch")
    assert (refused.status_code, refused.json()["code"], refused["Retry-After"]) == (503, "unavailable", "1")


def test_a_snapshot_of_many_locks_comes_in_pieces(committed, worker, call, monkeypatch) -> None:
    monkeypatch.setattr(watch, "LOCKS_AT_ONCE", 10)
    worker.takes(*(f"n{number:02}" for number in range(25)))
    (empty,) = call("GET", "/watch?prefix=else").stream.args[1]
    assert b'"locks":[],"complete":true' in empty
    response = call("GET", "/watch")
    assert (response.status_code, response["Content-Type"]) == (200, "text/event-stream")
    assert isinstance(response.stream, partial)
    _watcher, pieces = response.stream.args
    assert [piece.count(b'"name"') for piece in pieces] == [10, 10, 5]
    assert [b"id: " in piece for piece in pieces] == [False, False, True]
    assert [b'"complete":true' in piece for piece in pieces] == [False, False, True]
    monkeypatch.setattr(watch, "MAX_LOCKS", 24)
    assert call("GET", "/watch").json()["code"] == "invalid_input"
