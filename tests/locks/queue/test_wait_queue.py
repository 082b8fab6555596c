"""The line of a process, by itself: what cannot be timed from outside."""

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from locks.engine import requests
from locks.engine.execution import Unavailable, run
from locks.engine.operations import acquire, release
from locks.events.history.verification import verify
from locks.models import Event, Lock
from locks.queue import shared_connection
from locks.queue import wait_queue as process_line
from locks.queue.wait_queue import ClientDisconnected, WaitQueue
from tests import database
from tests.conftest import issue
from tests.locks.engine.concurrent_session import Meanwhile, meanwhile

pytestmark = pytest.mark.usefixtures("committed")

MAX_WAIT = 20


@pytest.fixture
def digest(space):
    return sha256(issue(space, "worker", "locks:read", "locks:write").encode()).hexdigest()


@pytest.fixture
def asks(digest):
    def asks(name: str = "deploy", *, owner: str = "somebody") -> requests.Acquire:
        return requests.Acquire(digest=digest, name=name, owner=owner, ttl_seconds=60)

    return asks


@pytest.fixture
def holds(digest, asks):
    """Takes a lock, and returns how to let go of it."""

    def holds(name: str = "deploy") -> Callable[[], Any]:
        (lease,) = run(acquire([asks(name, owner="holder")]))
        return lambda: run(release([requests.Release(digest=digest, name=name, lease_id=lease.lease_id)]))

    return holds


@pytest.fixture
def database_of_ours() -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database.conninfo(connection.settings_dict["NAME"]), autocommit=True) as observer:
        yield observer


@pytest.fixture
def backends(database_of_ours):
    """The process ids of the shared_connection, or those of its that wait for a lock."""

    def backends(*, waiting: bool = False) -> list[int]:
        query = """SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'octoadmin wait queue'"""
        query += " AND wait_event_type = 'Lock'" if waiting else ""
        return [pid for (pid,) in database_of_ours.execute(query)]

    return backends


@pytest.fixture
def in_line(database_of_ours):
    def in_line() -> list[str]:
        return [owner for (owner,) in database_of_ours.execute("SELECT owner FROM octo_waiter ORDER BY queue_seq")]

    return in_line


def on_a_line(talk: Callable[[WaitQueue], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        line = WaitQueue()
        async with asyncio.timeout(3 * MAX_WAIT):
            try:
                return await talk(line)
            finally:
                await line.close()

    return asyncio.run(main())


async def until(condition: Callable[[], Any]) -> None:
    for _ in range(100 * MAX_WAIT):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about")


def still_there() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


@pytest.fixture
def _patience(monkeypatch):
    """A statement takes as long as it takes on a busy machine, unless the test has frozen the database."""
    monkeypatch.setattr(shared_connection, "STATEMENT_TIMEOUT", MAX_WAIT)


@contextmanager
def frozen(*process_ids: int) -> Iterator[None]:
    """And nobody waits for an answer for long."""
    if not connection.settings_dict["HOST"].startswith("/"):
        pytest.skip("the database's processes may be another machine's")
    for process_id in process_ids:
        os.kill(process_id, signal.SIGSTOP)
    try:
        with pytest.MonkeyPatch.context() as impatient:
            impatient.setattr(shared_connection, "STATEMENT_TIMEOUT", 1.0)
            yield
    finally:
        for process_id in process_ids:
            os.kill(process_id, signal.SIGCONT)


def test_whoever_has_hung_up_by_its_turn_is_granted_nothing(asks):
    async def hang_up(line: WaitQueue) -> None:
        gone = still_there()
        gone.set_result(None)
        with pytest.raises(ClientDisconnected):
            await line.acquire(asks(), wait_seconds=5, disconnected=gone)

    on_a_line(hang_up)
    assert not Lock.objects.filter(lease_id__isnull=False).exists()
    assert not Event.objects.filter(kind="acquired").exists()


@pytest.mark.usefixtures("_patience")
def test_a_database_that_stops_answering_keeps_nobody_past_their_time(asks, holds, backends, in_line):
    lets_go = holds()

    async def talk(line: WaitQueue) -> None:
        turn = asyncio.create_task(line.acquire(asks(), wait_seconds=8, disconnected=still_there()))
        await until(in_line)
        with frozen(*backends()):
            with pytest.raises(Unavailable):
                await asyncio.wait_for(turn, MAX_WAIT)
            await asyncio.to_thread(in_a_thread(lets_go))

    on_a_line(talk)
    assert not Event.objects.filter(owner="somebody").exists()


@pytest.mark.usefixtures("_patience")
def test_what_a_frozen_database_was_asked_for_is_not_done_when_it_goes_on(asks, holds, backends, in_line, monkeypatch):
    """Whoever asked was told that it is not available, and has left."""
    holds()

    async def talk(line: WaitQueue) -> None:
        first = asyncio.create_task(line.acquire(asks(owner="first"), wait_seconds=30, disconnected=still_there()))
        await until(in_line)
        (stuck,) = backends()
        with frozen(stuck):
            with pytest.raises(Unavailable):
                await line.acquire(asks(owner="second"), wait_seconds=30, disconnected=still_there())
            monkeypatch.setattr(shared_connection, "STATEMENT_TIMEOUT", MAX_WAIT)
            third = asyncio.create_task(line.acquire(asks(owner="third"), wait_seconds=30, disconnected=still_there()))
            await until(lambda: len(in_line()) == 2)
        await until(lambda: stuck not in backends())
        assert in_line() == ["first", "third"]
        for turn in (first, third):
            turn.cancel()

    on_a_line(talk)


def test_a_lock_that_somebody_keeps_locked_is_waited_for_and_nobody_else_waits_along(
    asks, holds, in_line, database_of_ours
):
    for name in ("deploy", "other"):
        holds(name)

    async def talk(line: WaitQueue) -> None:
        with database_of_ours.transaction():
            database_of_ours.execute("SELECT FROM octo_lock WHERE name = 'deploy' FOR UPDATE")
            hindered = asyncio.create_task(line.acquire(asks(), wait_seconds=1, disconnected=still_there()))
            other = asyncio.create_task(line.acquire(asks("other", owner="other"), wait_seconds=30, disconnected=still_there()))
            await until(lambda: in_line() == ["other"])
            assert (await hindered).result.verdict == "held"
        other.cancel()

    on_a_line(talk)


def test_what_could_not_be_given_on_is_given_on_later(digest, holds, backends, in_line, database_of_ours, monkeypatch):
    """It was handed one of the names it wants, and then the database fails every statement that reads a token."""
    monkeypatch.setattr(process_line, "LOCK_TIMEOUT", "200ms")
    lets_go = holds("a")
    holds("b")
    asked = requests.AcquireAll(digest=digest, names=["a", "b"], owner="both", ttl_seconds=600)

    def owners() -> list[str]:
        return [owner for (owner,) in database_of_ours.execute("SELECT owner FROM octo_lock")]

    def hands_on_and_blocks(other: Meanwhile, blocker: psycopg.Connection[Any]) -> None:
        with transaction.atomic():
            lets_go()
            blocking = other.waits(blocker.execute, "LOCK TABLE octo_token IN ACCESS EXCLUSIVE MODE")
        blocking.result(MAX_WAIT)

    async def talk(line: WaitQueue) -> None:
        turn = asyncio.create_task(line.acquire_all(asked, wait_seconds=30, disconnected=still_there()))
        await until(in_line)
        with meanwhile() as other, psycopg.connect(database.conninfo(connection.settings_dict["NAME"])) as blocker:
            await asyncio.to_thread(in_a_thread(lambda: hands_on_and_blocks(other, blocker)))
            with pytest.raises(Unavailable):
                await turn
            # The attendant tries, in vain.
            await until(lambda: backends(waiting=True))
            await until(lambda: not backends(waiting=True))
            blocker.rollback()
            await until(lambda: "both" not in owners())

    on_a_line(talk)
    end = Event.objects.get(owner="both", kind="released")
    assert (end.lock_name, end.reason) == ("a", "the waiting client had disconnected")
    assert run(verify()).contradictions == []


@pytest.fixture
def is_brought_it_while_it_leaves(holds, backends, in_line, monkeypatch):
    """It wants to leave just when the lock is handed to it. The attendant brings it, and only then the desk goes on."""
    monkeypatch.setattr(process_line, "LOCK_TIMEOUT", f"{MAX_WAIT}s")
    monkeypatch.setattr(shared_connection, "STATEMENT_TIMEOUT", MAX_WAIT)
    lets_go = holds()
    commits = threading.Event()

    def hands_on() -> None:
        with transaction.atomic():
            lets_go()
            commits.wait(MAX_WAIT)

    async def is_brought_it() -> None:
        handing = asyncio.create_task(asyncio.to_thread(in_a_thread(hands_on)))
        try:
            await until(lambda: backends(waiting=True))
            with frozen(*backends()):
                commits.set()
                await handing
                await until(lambda: not in_line())
        finally:
            commits.set()

    return is_brought_it


def test_what_it_is_brought_while_it_hangs_up_is_given_on(asks, in_line, is_brought_it_while_it_leaves):
    async def talk(line: WaitQueue) -> None:
        gone = still_there()
        turn = asyncio.create_task(line.acquire(asks(), wait_seconds=30, disconnected=gone))
        await until(in_line)
        asyncio.get_running_loop().call_later(0.1, gone.set_result, None)
        await is_brought_it_while_it_leaves()
        with pytest.raises(ClientDisconnected):
            await turn

    on_a_line(talk)
    assert not Lock.objects.filter(lease_id__isnull=False).exists()
    assert Event.objects.get(owner="somebody", kind="released").reason == "the waiting client had disconnected"


def test_what_is_brought_to_a_client_that_has_just_gone_is_given_on(asks, holds, in_line):
    """The loop has two things to read: that it is handed the lock, and then that its client has closed."""
    lets_go = holds()

    async def talk(line: WaitQueue) -> None:
        gone = still_there()
        turn = asyncio.create_task(line.acquire(asks(), wait_seconds=30, disconnected=gone))
        await until(lambda: len(line) == 1)
        await asyncio.sleep(0.05)
        (place,) = line._waiters.values()
        closes = asyncio.get_running_loop().call_soon
        place.handover.add_done_callback(lambda _: closes(gone.set_result, None))
        await asyncio.to_thread(in_a_thread(lets_go))
        with pytest.raises(ClientDisconnected):
            await turn

    on_a_line(talk)
    assert not Lock.objects.filter(lease_id__isnull=False).exists()


def in_a_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        try:
            return work()
        finally:
            connection.close()

    return run
