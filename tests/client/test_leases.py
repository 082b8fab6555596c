"""Leases from Python: taken, kept alive, given back; and what becomes of them when things go wrong."""

import threading
import time

import pytest

import octo
from octo import Client, LeaseEvent, Status, clock
from tests.client.command_line import PATIENCE_SECONDS, TTL, eventually
from tests.polling import until


def test_a_block_holds_the_lock_and_gives_it_back(client, name):
    began = clock.now()
    with client.lock(name, ttl=30, owner="runner-7", metadata={"build": 1842, "why": "a release"}) as lease:
        seen = client.inspect(name)
        assert (seen.status, seen.owner, seen.fencing_token) == ("held", "runner-7", lease.fencing_token)
        assert seen.metadata == 'build=1842 why="a release"'
        assert began + 29 < lease.deadline <= clock.now() + 30
        assert 0 < lease.remaining <= 30
        with pytest.raises(octo.LockHeld) as refused:
            client.acquire(name)
        assert refused.value.held is not None
        assert refused.value.held.owner == "runner-7"
    assert client.inspect(name).status == "free"
    assert lease.status is Status.RELEASED
    assert not lease.lost


def wait_past(end: float) -> None:
    until(lambda: clock.now() > end)


def test_a_lease_is_renewed_while_the_block_runs(client, name):
    events = []
    with client.lock(name, ttl=TTL, on_event=lambda what, *_: events.append(what)) as lease:
        wait_past(lease.deadline)
        assert lease.status is Status.HELD
        assert client.inspect(name).fencing_token == lease.fencing_token
    assert LeaseEvent.RENEWED in events
    eventually(lambda: events[-1] is LeaseEvent.RELEASED)


def test_many_leases_are_renewed_by_one_thread_and_one_request(client, name):
    before = set(threading.enumerate())
    with client.acquire_all([f"{name}/{number}" for number in range(20)], ttl=TTL) as leases:
        wait_past(max(lease.deadline for lease in leases))
        assert len(set(threading.enumerate()) - before) == 1
        assert {lease.status for lease in leases} == {Status.HELD}
        assert len(list(client.locks(prefix=f"{name}/"))) == 20
    assert not list(client.locks(prefix=f"{name}/"))


def ending_of(client: Client, name: str, work, **terms) -> type[BaseException] | None:
    """How a block ends that does this work."""
    try:
        with client.lock(name, **terms) as lease:
            work(lease)
    except octo.OctoError as problem:
        return type(problem)
    return None


def test_what_the_server_ends_is_lost(client, operator, name):
    told = []

    def work(lease: octo.Lease) -> None:
        operator.force_release(name, reason="the host is gone", fencing_token=lease.fencing_token)
        assert lease.lost.wait(PATIENCE_SECONDS)
        with pytest.raises(octo.LeaseLost):
            lease.check()

    assert ending_of(client, name, work, ttl=TTL, on_lost=told.append) is octo.LeaseLost
    eventually(lambda: [lease.status for lease in told] == [Status.LOST])


def test_a_lost_lease_is_not_taken_again(client, operator, name):
    def work(lease: octo.Lease) -> None:
        operator.force_release(name, reason="the host is gone")
        assert lease.lost.wait(PATIENCE_SECONDS)
        time.sleep(0.3)
        assert client.inspect(name).status == "free"

    assert ending_of(client, name, work, ttl=TTL) is octo.LeaseLost


def test_silence_is_not_loss_but_uncertainty(backend, proxy, client, name):
    """The answers to renewals are lost: by our own clock the lease is over, and that is all we know."""
    told = []

    def work(lease: octo.Lease) -> None:
        proxy.lose_answers()
        assert lease.lost.wait(PATIENCE_SECONDS)
        # The server has renewed it all the while, and still we may not work on.
        assert client.inspect(name).status == "held"

    with Client(proxy.url, backend.worker_token, retry_for=0.1) as deaf:
        assert ending_of(deaf, name, work, ttl=TTL, on_lost=told.append) is octo.LeaseUncertain
    eventually(lambda: [lease.status for lease in told] == [Status.UNCERTAIN])


def test_a_network_that_comes_back_in_time_costs_nothing(backend, proxy, name):
    events = []

    def work(lease: octo.Lease) -> None:
        proxy.lose_answers()
        eventually(lambda: LeaseEvent.RENEW_FAILED in events)
        proxy.recover()
        eventually(lambda: LeaseEvent.RENEWED in events)
        lease.check()

    with Client(proxy.url, backend.worker_token) as client:
        assert ending_of(client, name, work, ttl=2 * TTL, on_event=lambda what, *_: events.append(what)) is None


def test_an_acquire_is_tried_again_and_taken_once(backend, proxy, client, name):
    """The first answer is lost. The second attempt has the same key, so it finds its own lease."""
    proxy.lose_an_answer()
    with Client(proxy.url, backend.worker_token) as unlucky, unlucky.lock(name, ttl=30) as lease:
        assert client.inspect(name).fencing_token == lease.fencing_token
        assert proxy.connections > 1


def test_a_release_whose_answer_was_lost_is_a_release(backend, proxy, client, name):
    with Client(proxy.url, backend.worker_token) as unlucky:
        lease = unlucky.acquire(name, ttl=30)
        proxy.lose_an_answer()
        lease.release()
        assert proxy.connections > 1
    assert lease.status is Status.RELEASED
    assert client.inspect(name).status == "free"


@pytest.mark.parametrize("where", ["main thread", "another thread"])
def test_a_block_can_be_interrupted(client, operator, name, where):
    outcome = []

    def work() -> None:
        try:
            with client.lock(name, ttl=TTL, interrupt=True):
                operator.force_release(name, reason="the host is gone")
                for _ in range(10 * PATIENCE_SECONDS):
                    time.sleep(0.1)
                outcome.append("worked on")
        except octo.LeaseLost:
            outcome.append("interrupted")

    if where == "main thread":
        work()
    else:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert outcome == ["interrupted"]


def test_waiting_until_the_holder_is_done(client, name):
    holder = client.acquire(name, ttl=30)
    waited_for = []

    def let_go(held: octo.Holder) -> None:
        waited_for.append(held)
        timer.start()

    timer = threading.Timer(0.5, holder.release)
    with client.lock(name, ttl=30, wait=PATIENCE_SECONDS, on_wait=let_go) as lease:
        assert lease.fencing_token > holder.fencing_token
    timer.join()
    assert waited_for[0].fencing_token == holder.fencing_token


def test_a_long_wait_takes_nothing_from_the_lease(client, name):
    """The deadline is counted from when we asked, and that was longer ago than the lease lasts: so we ask anew."""
    holder = client.acquire(name, ttl=60)
    released_at = 0.0

    def let_go() -> None:
        nonlocal released_at
        released_at = clock.now()
        holder.release()

    timer = threading.Timer(TTL + 0.5, let_go)
    timer.start()
    lease = client.acquire(name, ttl=TTL, wait=PATIENCE_SECONDS)
    timer.join()
    assert released_at + TTL - 1 < lease.deadline <= clock.now() + TTL
    lease.release()


def test_those_who_wait_are_served_in_order(client, name):
    holder = client.acquire(name, ttl=60)
    served: list[int] = []

    def wait(number: int) -> None:
        lease = client.acquire(name, ttl=60, wait=30)
        served.append(number)
        lease.release()

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(3)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        eventually(lambda number=number: client.inspect(name).waiters == number)
    holder.release()
    for thread in threads:
        thread.join()
    assert served == [0, 1, 2]


def test_waiting_too_long(client, name):
    client.acquire(name, ttl=30)
    with pytest.raises(octo.LockTimeout):
        client.acquire(name, wait=0.5)


def test_an_acquire_whose_answer_was_lost_is_not_taken_twice(client, name):
    first = client.acquire(name, ttl=30, idempotency_key="run-1")
    again = client.acquire(name, ttl=30, idempotency_key="run-1")
    assert (again.lease_id, again.fencing_token) == (first.lease_id, first.fencing_token)


def test_the_next_of_a_backlog(client, name):
    client.acquire(f"{name}-1")
    with client.claim_next([f"{name}-1", f"{name}-2"]) as lease:
        assert lease.name == f"{name}-2"
        with pytest.raises(octo.LockHeld):
            client.claim_next([f"{name}-1", f"{name}-2"])


def test_all_or_none(client, name):
    client.acquire(f"{name}-b", owner="agent-7")
    with pytest.raises(octo.LockHeld) as refused:
        client.acquire_all([f"{name}-a", f"{name}-b"])
    assert [(blocker.name, blocker.owner) for blocker in refused.value.blocked_by] == [(f"{name}-b", "agent-7")]
    assert client.inspect(f"{name}-a").status == "free"


def test_a_singleton_runs_once_at_a_time(client, name):
    inside = threading.Event()
    done = threading.Event()

    @client.singleton(name, ttl=30)
    def report(number: int) -> int:
        inside.set()
        done.wait(PATIENCE_SECONDS)
        return number

    results: list[int | None] = []
    thread = threading.Thread(target=lambda: results.append(report(1)))
    thread.start()
    assert inside.wait(PATIENCE_SECONDS)
    assert report(2) is None
    done.set()
    thread.join()
    assert results == [1]
    assert report(3) == 3


def test_the_vocabulary_of_jobs(client, name):
    lease = client.claim_job(name, "agent-7", "repo=acme/app")
    assert client.get_job_owner(name).owner == "agent-7"
    assert [job.name for job in client.list_claimed_jobs(name)] == [name]
    assert client.heartbeat_job(name, lease.lease_id) >= lease.expires_at
    with pytest.raises(octo.LockHeld):
        client.claim_job(name, "agent-8", None)
    client.release_job(name, lease.lease_id)
    assert client.get_job_owner(name) is None
    with pytest.raises(octo.LeaseNotCurrent):
        client.heartbeat_job(name, lease.lease_id)
