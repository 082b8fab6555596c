"""The wait queue of a process, by itself: cases that cannot be timed from outside."""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from locks.engine import requests
from locks.engine.execution import Unavailable, run
from locks.engine.handover import waiters_of
from locks.engine.operations import acquire, release
from locks.events.history.verification import verify
from locks.models import Event, Lock
from locks.queue import on_demand_task, queue_worker, shared_connection
from locks.queue import wait_queue as wait_queue_module
from locks.queue.shared_connection import SharedConnection
from locks.queue.wait_queue import ClientDisconnected, ShuttingDown, WaitQueue
from tests import database
from tests.conftest import issue
from tests.locks.engine.concurrent_session import ConcurrentSession, concurrent_session
from tests.polling import async_until, until

pytestmark = pytest.mark.usefixtures("committed")

MAX_WAIT = 20


@pytest.fixture
def digest(space):
    return sha256(issue(space, "worker", "locks:read", "locks:write").encode()).hexdigest()


@pytest.fixture
def request_for(digest):
    def request_for(name: str = "deploy", *, owner: str = "waiter") -> requests.Acquire:
        return requests.Acquire(digest=digest, name=name, owner=owner, ttl_seconds=60)

    return request_for


@pytest.fixture
def hold_lock(digest, request_for):
    """Acquires a lock, and returns a function that releases it."""

    def hold_lock(name: str = "deploy") -> Callable[[], Any]:
        (lease,) = run(acquire([request_for(name, owner="holder")]))
        return lambda: run(release([requests.Release(digest=digest, name=name, lease_id=lease.lease_id)]))

    return hold_lock


@pytest.fixture
def observer_connection() -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database.conninfo(connection.settings_dict["NAME"]), autocommit=True) as observer:
        yield observer


@pytest.fixture
def backends(observer_connection):
    """The backends of the queue's shared connection, or those of them that wait for a lock."""

    def backends(*, waiting: bool = False) -> list[int]:
        query = """SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'octoadmin wait queue'"""
        query += " AND wait_event_type = 'Lock'" if waiting else ""
        return [pid for (pid,) in observer_connection.execute(query)]

    return backends


@pytest.fixture
def queued_owners(observer_connection):
    def queued_owners() -> list[str]:
        return [owner for (owner,) in observer_connection.execute("SELECT owner FROM octo_waiter ORDER BY queue_seq")]

    return queued_owners


def with_queue(scenario: Callable[[WaitQueue], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        queue = WaitQueue()
        async with asyncio.timeout(3 * MAX_WAIT):
            try:
                return await scenario(queue)
            finally:
                await queue.close()

    return asyncio.run(main())


def connected() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


@pytest.fixture
def _long_timeouts(monkeypatch):
    """A statement may take long on a busy machine, unless the test has frozen the database."""
    monkeypatch.setattr(shared_connection, "STATEMENT_TIMEOUT", MAX_WAIT)


@contextmanager
def frozen(*process_ids: int) -> Iterator[None]:
    """With a short statement timeout."""
    if not connection.settings_dict["HOST"].startswith("/"):
        pytest.skip("the database's processes may be another machine's")
    for process_id in process_ids:
        os.kill(process_id, signal.SIGSTOP)
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(shared_connection, "STATEMENT_TIMEOUT", 1.0)
            yield
    finally:
        for process_id in process_ids:
            os.kill(process_id, signal.SIGCONT)


def test_a_client_that_has_disconnected_is_granted_nothing(request_for):
    async def disconnect(queue: WaitQueue) -> None:
        disconnected = connected()
        disconnected.set_result(None)
        with pytest.raises(ClientDisconnected):
            await queue.acquire(request_for(), wait_seconds=5, disconnected=disconnected)

    with_queue(disconnect)
    assert not Lock.objects.filter(lease_id__isnull=False).exists()
    assert not Event.objects.filter(kind="acquired").exists()


@pytest.mark.usefixtures("_long_timeouts")
def test_requests_time_out_when_the_database_stops_answering(request_for, hold_lock, backends, queued_owners):
    release_lock = hold_lock()

    async def scenario(queue: WaitQueue) -> None:
        acquiring = asyncio.create_task(queue.acquire(request_for(), wait_seconds=8, disconnected=connected()))
        await async_until(queued_owners)
        with frozen(*backends()):
            with pytest.raises(Unavailable):
                await asyncio.wait_for(acquiring, MAX_WAIT)
            await asyncio.to_thread(in_thread(release_lock))

    with_queue(scenario)
    assert not Event.objects.filter(owner="waiter").exists()


@pytest.mark.usefixtures("_long_timeouts")
def test_a_statement_of_a_frozen_backend_is_not_run_when_it_continues(
    request_for, hold_lock, backends, queued_owners, monkeypatch
):
    """Its request has already been answered with Unavailable."""
    hold_lock()

    async def scenario(queue: WaitQueue) -> None:
        first = asyncio.create_task(
            queue.acquire(request_for(owner="first"), wait_seconds=30, disconnected=connected())
        )
        await async_until(queued_owners)
        (stuck,) = backends()
        with frozen(stuck):
            with pytest.raises(Unavailable):
                await queue.acquire(request_for(owner="second"), wait_seconds=30, disconnected=connected())
            monkeypatch.setattr(shared_connection, "STATEMENT_TIMEOUT", MAX_WAIT)
            third = asyncio.create_task(
                queue.acquire(request_for(owner="third"), wait_seconds=30, disconnected=connected())
            )
            await async_until(lambda: len(queued_owners()) == 2)
        await async_until(lambda: stuck not in backends())
        assert queued_owners() == ["first", "third"]
        for acquiring in (first, third):
            acquiring.cancel()

    with_queue(scenario)


def test_closing_while_a_statement_gets_no_answer_leaves_no_connection(backends):
    async def main() -> None:
        shared = SharedConnection(purpose="wait queue", lock_timeout="1s")
        await shared.run(waiters_of(uuid4()))
        with frozen(*backends()):
            unanswered = asyncio.create_task(shared.run(waiters_of(uuid4())))
            await asyncio.sleep(0)
            closing = asyncio.create_task(shared.close())
            with pytest.raises(Unavailable):
                await unanswered
            await closing
        await async_until(lambda: not backends())
        assert shared._connection is None

    asyncio.run(main())


def test_a_locked_row_does_not_block_requests_for_other_names(
    request_for, hold_lock, queued_owners, observer_connection
):
    for name in ("deploy", "other"):
        hold_lock(name)

    async def scenario(queue: WaitQueue) -> None:
        with observer_connection.transaction():
            observer_connection.execute("SELECT FROM octo_lock WHERE name = 'deploy' FOR UPDATE")
            blocked = asyncio.create_task(queue.acquire(request_for(), wait_seconds=1, disconnected=connected()))
            other = asyncio.create_task(
                queue.acquire(request_for("other", owner="other"), wait_seconds=30, disconnected=connected())
            )
            await async_until(lambda: sorted(queued_owners()) == ["other", "waiter"])
            assert (await blocked).result.verdict == "held"
        other.cancel()

    with_queue(scenario)


def test_a_lease_that_could_not_be_returned_is_returned_later(
    digest, hold_lock, backends, queued_owners, observer_connection, monkeypatch
):
    """The request was handed one of its names, and then the database fails every statement that reads a token."""
    monkeypatch.setattr(wait_queue_module, "LOCK_TIMEOUT", "200ms")
    release_lock = hold_lock("a")
    hold_lock("b")
    request = requests.AcquireAll(digest=digest, names=["a", "b"], owner="both", ttl_seconds=600)

    def owners() -> list[str]:
        return [owner for (owner,) in observer_connection.execute("SELECT owner FROM octo_lock")]

    def hand_over_and_block(other: ConcurrentSession, blocker: psycopg.Connection[Any]) -> None:
        with transaction.atomic():
            release_lock()
            blocking = other.run_blocked(blocker.execute, "LOCK TABLE octo_token IN ACCESS EXCLUSIVE MODE")
        blocking.result(MAX_WAIT)

    async def scenario(queue: WaitQueue) -> None:
        acquiring = asyncio.create_task(queue.acquire_all(request, wait_seconds=30, disconnected=connected()))
        await async_until(queued_owners)
        with (
            concurrent_session() as other,
            psycopg.connect(database.conninfo(connection.settings_dict["NAME"])) as blocker,
        ):
            await asyncio.to_thread(in_thread(lambda: hand_over_and_block(other, blocker)))
            with pytest.raises(Unavailable):
                await acquiring
            # The queue worker tries and fails.
            await async_until(lambda: backends(waiting=True))
            await async_until(lambda: not backends(waiting=True))
            blocker.rollback()
            await async_until(lambda: "both" not in owners())

    with_queue(scenario)
    end = Event.objects.get(owner="both", kind="released")
    assert (end.lock_name, end.reason) == ("a", "the waiting client had disconnected")
    assert run(verify()).contradictions == []


@pytest.fixture
def deliver_while_it_leaves(hold_lock, backends, queued_owners, monkeypatch):
    """The request leaves the queue just when the lock is handed to it. The worker delivers it first."""
    monkeypatch.setattr(wait_queue_module, "LOCK_TIMEOUT", f"{MAX_WAIT}s")
    monkeypatch.setattr(shared_connection, "STATEMENT_TIMEOUT", MAX_WAIT)
    release_lock = hold_lock()
    released, commits = threading.Event(), threading.Event()

    def hand_over() -> None:
        with transaction.atomic():
            release_lock()
            released.set()
            commits.wait(MAX_WAIT)

    async def deliver(leave: Callable[[], Any]) -> None:
        handing = asyncio.create_task(asyncio.to_thread(in_thread(hand_over)))
        try:
            await async_until(released.is_set)
            leave()
            await async_until(lambda: backends(waiting=True))
            with frozen(*backends()):
                commits.set()
                await handing
                await async_until(lambda: not queued_owners())
        finally:
            commits.set()

    return deliver


def test_a_lease_delivered_while_the_client_disconnects_is_returned(
    request_for, queued_owners, deliver_while_it_leaves
):
    async def scenario(queue: WaitQueue) -> None:
        disconnected = connected()
        acquiring = asyncio.create_task(queue.acquire(request_for(), wait_seconds=30, disconnected=disconnected))
        await async_until(queued_owners)
        await deliver_while_it_leaves(lambda: disconnected.set_result(None))
        with pytest.raises(ClientDisconnected):
            await acquiring

    with_queue(scenario)
    assert not Lock.objects.filter(lease_id__isnull=False).exists()
    assert Event.objects.get(owner="waiter", kind="released").reason == "the waiting client had disconnected"


def disconnect_when_handed(request: requests.Acquire, hand_over: Callable[[], None]) -> None:
    """The event loop reads the handover first, and then that the client has disconnected."""

    async def scenario(queue: WaitQueue) -> None:
        disconnected = connected()
        acquiring = asyncio.create_task(queue.acquire(request, wait_seconds=30, disconnected=disconnected))
        await async_until(lambda: len(queue) == 1)
        await asyncio.sleep(0.05)
        (waiter,) = queue._waiters.values()
        call_soon = asyncio.get_running_loop().call_soon
        waiter.handover.add_done_callback(lambda _: call_soon(disconnected.set_result, None))
        await asyncio.to_thread(in_thread(hand_over))
        with pytest.raises(ClientDisconnected):
            await acquiring

    with_queue(scenario)


def test_a_lease_delivered_to_a_client_that_has_just_disconnected_is_returned(request_for, hold_lock):
    disconnect_when_handed(request_for(), hold_lock())
    assert not Lock.objects.filter(lease_id__isnull=False).exists()


def test_a_lease_that_a_retry_was_given_before_it_was_claimed_stays_with_the_retry(digest, hold_lock):
    """The lock is handed to the first attempt, the retry is recognised, and then the first attempt does not take it."""
    release_lock = hold_lock()
    retries = []

    def attempt() -> requests.Acquire:
        key = {"idempotency_digest": "00" * 32, "request_digest": "11" * 32}
        return requests.Acquire(digest=digest, name="deploy", owner="waiter", ttl_seconds=60, **key)

    def hand_over_and_retry() -> None:
        with transaction.atomic():
            release_lock()
            retries.extend(run(acquire([attempt()])))

    disconnect_when_handed(attempt(), hand_over_and_retry)
    (retry,) = retries
    assert retry.verdict == "recognised"
    assert Lock.objects.get().lease_id == retry.lease_id


def test_a_lease_is_returned_also_if_the_clock_was_set_back_before_it_was_claimed(request_for, hold_lock):
    release_lock = hold_lock()

    def hand_over_in_ten_seconds() -> None:
        with transaction.atomic():
            release_lock()
            later = Now() + timedelta(seconds=10)
            Lock.objects.update(acquired_at=later, renewed_at=later, expires_at=later + timedelta(seconds=1))

    disconnect_when_handed(request_for(), hand_over_in_ten_seconds)
    assert not Lock.objects.filter(lease_id__isnull=False).exists()


def test_a_request_whose_statement_had_to_wait_is_served_by_its_arrival(request_for, hold_lock, queued_owners):
    """Its batch waited for a row, and a later request of the same process was placed before it."""
    release_lock = hold_lock()

    async def scenario(queue: WaitQueue) -> str | None:
        # From its answer the process knows the clock of the database.
        await queue.acquire(request_for("other"), wait_seconds=1, disconnected=connected())
        first, second = (arriving(queue, request_for(owner=owner)) for owner in ("first", "second"))
        places = [await asyncio.to_thread(in_thread(partial(run_acquire, request))) for request in (second, first)]
        assert queued_owners() == ["first", "second"]
        waits = [
            asyncio.create_task(
                queue.acquire(request, wait_seconds=30, disconnected=connected(), waiter_id=place.waiter_id)
            )
            for request, place in zip((second, first), places, strict=True)
        ]
        await async_until(lambda: len(queue) == 2)
        await asyncio.to_thread(in_thread(release_lock))
        (served,), _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        return served.result().result.owner

    assert with_queue(scenario) == "first"


def test_a_request_whose_time_is_up_gets_its_position_if_the_check_for_lost_entries_runs_while_it_leaves(
    request_for, hold_lock, queued_owners, monkeypatch
):
    hold_lock()
    monkeypatch.setattr(queue_worker, "HEARTBEATS_PER_CHECK", 1)

    async def scenario(queue: WaitQueue) -> None:
        run_statement = queue._connection.run

        async def run_then_check(operation: Any) -> Any:
            result = await run_statement(operation)
            await queue._worker._heartbeat()
            return result

        # Not while the queue is closed: the check would open a connection again.
        with monkeypatch.context() as patched:
            patched.setattr(queue._connection, "run", run_then_check)
            waited = await queue.acquire(request_for(), wait_seconds=0.5, disconnected=connected())
        assert (waited.result.verdict, waited.position) == ("held", 1)

    with_queue(scenario)


def run_acquire(request: requests.Acquire) -> Any:
    return run(acquire([request]))[0]


def arriving(queue: WaitQueue, request: requests.Acquire) -> requests.Acquire:
    for name, value in queue.arrival_options(5).items():
        setattr(request, name, value)
    return request


def test_a_request_that_got_its_place_while_the_queue_was_closed_leaves_it(request_for, hold_lock, queued_owners):
    """The statement of a batch gives it its place; the queue hears of it when the statement has ended."""
    hold_lock()

    async def scenario(queue: WaitQueue) -> None:
        request = arriving(queue, request_for())
        waiting = await asyncio.to_thread(in_thread(partial(run_acquire, request)))
        assert queued_owners() == ["waiter"]
        await queue.close()
        with pytest.raises(ShuttingDown):
            await queue.acquire(request, wait_seconds=5, disconnected=connected(), waiter_id=waiting.waiter_id)
        assert queued_owners() == []

    with_queue(scenario)


@pytest.mark.usefixtures("_long_timeouts")
def test_a_request_that_joins_while_the_queue_is_closed_is_told_so(
    request_for, hold_lock, queued_owners, observer_connection
):
    """Its statement runs, and waits, while all others are told."""
    hold_lock()

    async def scenario(queue: WaitQueue) -> None:
        first = asyncio.create_task(queue.acquire(request_for(), wait_seconds=30, disconnected=connected()))
        await async_until(lambda: len(queue) == 1)
        with observer_connection.transaction():
            observer_connection.execute("LOCK TABLE octo_waiter IN SHARE MODE")
            joining = asyncio.create_task(queue.acquire(request_for(), wait_seconds=30, disconnected=connected()))
            await asyncio.to_thread(wait_for_blocked, observer_connection)
            closing = asyncio.create_task(queue.close())
            with pytest.raises(ShuttingDown):
                await first
        await closing
        with pytest.raises(ShuttingDown):
            await joining
        with pytest.raises(ShuttingDown):
            await queue.acquire(request_for(), wait_seconds=30, disconnected=connected())

    with_queue(scenario)
    assert queued_owners() == []


def test_a_lease_handed_to_a_request_whose_first_statement_still_runs_is_kept_for_it(request_for, hold_lock, digest):
    """The place was committed, and the lock handed over and claimed, before the process has read which place it is."""
    release_lock = hold_lock()

    async def scenario(queue: WaitQueue) -> None:
        other = asyncio.create_task(
            queue.acquire(request_for(owner="other"), wait_seconds=30, disconnected=connected())
        )
        await async_until(lambda: len(queue) == 1)
        with queue.joining():
            request = request_for("deploy", owner="joins")
            for option, value in queue.wait_options(30).items():
                setattr(request, option, value)
            (placed,) = await asyncio.to_thread(in_thread(lambda: run(acquire([request]))))
            assert placed.verdict == "waiting"
            other.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await other
            await asyncio.to_thread(in_thread(release_lock))
            await async_until(lambda: queue._unclaimed)
            # A few ticks of the queue worker.
            await asyncio.sleep(0.5)
        got = await queue.acquire(request, wait_seconds=30, disconnected=connected(), waiter_id=placed.waiter_id)
        assert (got.result.verdict, got.result.owner) == ("acquired", "joins")

    with_queue(scenario)
    assert run(verify()).contradictions == []


def wait_for_blocked(observer: psycopg.Connection[Any]) -> None:
    query = (
        "SELECT 1 FROM pg_stat_activity WHERE application_name = 'octoadmin wait queue' AND wait_event_type = 'Lock'"
    )
    until(lambda: observer.execute(query).fetchall())


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        try:
            return work()
        finally:
            connection.close()

    return run


def test_a_request_is_served_also_if_it_comes_when_the_background_task_is_about_to_end(
    request_for, hold_lock, queued_owners, monkeypatch
):
    """The task ends some time after the last request; each of these comes at another moment around that."""
    monkeypatch.setattr(on_demand_task, "IDLE_SECONDS", 0.25)
    locks = [(f"job-{number}", hold_lock(f"job-{number}")) for number in range(12)]

    async def scenario(queue: WaitQueue) -> None:
        for number, (name, release_lock) in enumerate(locks):
            await asyncio.sleep(0.05 * number)
            waiting = asyncio.create_task(
                queue.acquire(request_for(name), wait_seconds=MAX_WAIT, disconnected=connected())
            )
            await async_until(queued_owners)
            await asyncio.to_thread(in_thread(release_lock))
            served = await waiting
            assert served.result.verdict == "acquired"
            # Otherwise it found the lock free when its time was up.
            assert served.waited_ms < 1000 * MAX_WAIT

    with_queue(scenario)
