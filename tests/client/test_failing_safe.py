"""A lease that looks held is held, whatever proxies, callbacks and nested blocks do; and every failure says so."""

import asyncio
import logging
import select
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import product

import pytest

import octo
from octo import AsyncClient, Client, Status
from octo.testing import FakeServer
from tests.client.command_line import PATIENCE_SECONDS, eventually
from tests.fault_proxy import FaultProxy

# Renewed twice a second or so, and long enough for a loaded machine.
TTL = 6


def at_once(check: Callable[..., None], *cases: tuple) -> None:
    """Each case waits for longer than a lease lasts."""
    with ThreadPoolExecutor(len(cases)) as threads:
        checks = {case: threads.submit(check, *case) for case in cases}
    assert {case: done.exception() for case, done in checks.items()} == dict.fromkeys(cases)


def test_only_an_answer_of_the_contract_renews(backend, name):
    def check(fault: str) -> None:
        with (
            closing(FaultProxy(backend.server.port)) as proxy,
            Client(proxy.url, backend.worker_token, retry_for=1) as client,
        ):
            lease = client.acquire(f"{name}/{fault}", ttl=TTL)
            proxy.fault = fault
            with pytest.raises(octo.LeaseUncertain), lease:
                assert lease.lost.wait(2 * TTL)
            assert lease.status is Status.UNCERTAIN

    at_once(check, ("maintenance",), ("other_json",), ("wrong_json",), ("truncated",))


def test_a_bad_body_does_not_end_the_renewals_of_later(backend, client, name):
    def check(fault: str, count: int) -> None:
        prefix, lost = f"{name}/{fault}/{count}/", []
        with (
            closing(FaultProxy(backend.server.port)) as proxy,
            Client(proxy.url, backend.worker_token, retry_for=1) as behind,
        ):
            leases = [behind.acquire(f"{prefix}{number}", ttl=TTL) for number in range(count)]
            for lease in leases:
                lease.when_lost(lost.append)
                lease.__enter__()
            proxy.fault = fault
            eventually(lambda: proxy.counts[fault])
            proxy.recover()
            time.sleep(TTL + 1)
            assert [lease.status for lease in leases] == [Status.HELD] * count
            assert len(list(client.locks(prefix=prefix))) == count
            proxy.go_down()
            eventually(lambda: len(lost) == count)

    at_once(check, *product(("wrong_json", "other_json", "truncated", "maintenance"), (1, 3)))


class Flaky(FakeServer):
    """Raises what a transport should not raise, now and then."""

    problem: BaseException | None = None
    raised = 0

    async def handle_async_request(self, request):
        if self.problem is not None and "renew" in str(request.url):
            problem, self.problem = self.problem, None
            self.raised += 1
            raise problem
        return await super().handle_async_request(request)


def test_renewing_goes_on_after_what_should_not_happen(name):
    def check(problem: BaseException) -> None:
        server = Flaky()
        with (
            server.client() as client,
            client.lock(f"{name}-1", ttl=2) as lease,
            client.lock(f"{name}-2", ttl=2) as other,
        ):
            server.problem = problem
            eventually(lambda: server.raised)
            time.sleep(3)
            assert (lease.status, other.status) == (Status.HELD, Status.HELD)
            assert client.inspect(f"{name}-1").fencing_token == lease.fencing_token

    problems = (KeyError("x"), RuntimeError("x"), RecursionError(), MemoryError(), SystemExit(1))
    at_once(check, *((problem,) for problem in problems))


def test_leases_of_a_cancelled_renewer_end_loudly(name, caplog):
    async def main() -> None:
        server, lost = FakeServer(), []
        async with server.async_client() as client:
            lease = await client.acquire(name, ttl=2, on_lost=lost.append)
            lease.start_renewing()
            await asyncio.sleep(0)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.wait_for(lease.lost.wait(), 5)
            await asyncio.sleep(0)
            assert (lease.status, lost) == (Status.UNCERTAIN, [lease])

    asyncio.run(main())
    assert any(record.levelname == "CRITICAL" for record in caplog.records)


def test_a_proxy_cannot_end_a_lease(backend, client, name):
    def check(fault: str) -> None:
        with (
            closing(FaultProxy(backend.server.port)) as proxy,
            Client(proxy.url, backend.worker_token) as behind,
            behind.lock(f"{name}/{fault}", ttl=TTL) as lease,
        ):
            proxy.fault = fault
            eventually(lambda: proxy.counts[fault])
            time.sleep(0.5)
            assert lease.status is Status.HELD
            proxy.recover()
            time.sleep(TTL)
            assert lease.status is Status.HELD
            assert client.inspect(f"{name}/{fault}").fencing_token == lease.fencing_token

    at_once(check, ("not_found",), ("redirect",), ("bad_gateway",))


def test_a_session_is_not_ended_by_a_proxy_either(backend, proxy, client, name):
    with Client(proxy.url, backend.worker_token) as behind, behind.session(ttl=10) as session:
        lease = session.acquire(name, ttl=60)
        proxy.fault = "not_found"
        eventually(lambda: proxy.counts["not_found"])
        time.sleep(0.5)
        assert (session.status, lease.status) == (Status.HELD, Status.HELD)
        proxy.recover()


def test_an_answer_that_drips_does_not_hold_up_the_renewals(backend, proxy, name):
    with Client(proxy.url, backend.worker_token) as client, client.lock(name, ttl=TTL) as lease:
        proxy.fault = "drip"
        eventually(lambda: proxy.counts["drip"])
        proxy.fault = None
        time.sleep(TTL + 2)
        assert lease.status is Status.HELD


def test_a_slow_callback_delays_nothing(client, operator, name):
    done = threading.Event()

    def work(lost: octo.Lease, kept: octo.Lease) -> None:
        operator.force_release(f"{name}-slow", reason="gone")
        assert lost.lost.wait(PATIENCE_SECONDS)
        time.sleep(TTL + 1)
        assert (lost.status, kept.status) == (Status.LOST, Status.HELD)
        assert client.inspect(f"{name}-kept").status == "held"
        done.set()

    slow = client.lock(f"{name}-slow", ttl=TTL, on_lost=lambda _: done.wait(PATIENCE_SECONDS))
    with pytest.raises(octo.LeaseLost), slow as lost, client.lock(f"{name}-kept", ttl=TTL) as kept:
        work(lost, kept)


@pytest.mark.parametrize("which", ["outer", "inner"])
def test_nested_blocks_are_each_interrupted(client, operator, name, which):
    ended = []
    try:
        with client.lock(f"{name}-outer", ttl=TTL, interrupt=True):
            try:
                with client.lock(f"{name}-inner", ttl=TTL, interrupt=True):
                    operator.force_release(f"{name}-{which}", reason="gone")
                    for _ in range(20 * PATIENCE_SECONDS):
                        time.sleep(0.05)
                    ended.append("worked on")
            except octo.LeaseLost:
                ended.append("inner")
    except octo.LeaseLost as over:
        ended.append(over.name.rpartition("-")[2])
    assert ended == [which]
    assert client.inspect(f"{name}-inner").status == "free"


def test_there_need_not_be_a_select_poll(client, monkeypatch, name):
    """Windows has none."""
    monkeypatch.delattr(select, "poll")
    assert client.inspect(name).status == "free"
    assert client.inspect(name).status == "free"


@pytest.mark.parametrize(
    "fault", ["maintenance", "other_json", "wrong_json", "truncated", "cut_off", "redirect", "reset"]
)
def test_every_failure_is_an_octo_error(backend, proxy, name, fault):
    with Client(proxy.url, backend.worker_token, retry_for=0.2) as client:
        lease = client.acquire(name, ttl=30)
        proxy.fault = fault
        for call in (
            lambda: client.inspect(name),
            lambda: client.acquire(name, ttl=30),
            lambda: list(client.locks(prefix=name)),
            lambda: client.claim_next([name]),
            lambda: client.acquire_all([name]),
            client.whoami,
            lambda: client.session().__enter__(),
            lambda: client.heartbeat_job(name, lease.lease_id),
            lambda: client.release_job(name, lease.lease_id),
        ):
            with pytest.raises(octo.OctoError):
                call()


def test_a_wait_is_no_longer_than_it_was_to_be(backend, proxy, name):
    with Client(proxy.url, backend.worker_token) as client:
        proxy.go_down()
        began = time.monotonic()
        with pytest.raises(octo.OctoError):
            client.acquire(name, wait=1)
        assert time.monotonic() - began < 5


def test_a_session_on_an_event_loop_needs_one_await(backend, name):
    async def main():
        client = AsyncClient(backend.url, backend.worker_token)
        async with client, client.session(ttl=10, owner="agent-8") as session, session.lock(name, ttl=60):
            return (await client.inspect(name)).owner

    assert asyncio.run(main()) == "agent-8"


def test_a_lock_of_a_session_tells_of_its_loss(client, operator, name):
    told = []

    def work(session: octo.Session) -> None:
        with session.lock(name, ttl=TTL, on_lost=told.append) as lease:
            operator.force_release(name, reason="gone")
            assert lease.lost.wait(PATIENCE_SECONDS)

    with client.session(ttl=10) as session:
        with pytest.raises(octo.LeaseLost):
            work(session)
        eventually(lambda: [lease.status for lease in told] == [Status.LOST])


def test_a_release_that_fails_is_logged(backend, proxy, name, caplog):
    with Client(proxy.url, backend.worker_token, retry_for=0.1) as client:
        with caplog.at_level(logging.WARNING, logger="octo"), client.lock(name, ttl=60):
            proxy.go_down()
        assert [name in record.getMessage() for record in caplog.records] == [True]
