"""The asynchronous client: the same names, the same answers."""

import asyncio
import inspect

import pytest

import octo
from octo import AsyncClient, Client, Status, clock
from tests.client.command_line import TTL


def run(backend, work):
    """Runs a test's coroutine with a client."""

    async def main():
        async with AsyncClient(backend.url, backend.worker_token, retry_for=5) as client:
            return await work(client)

    return asyncio.run(main())


def test_both_clients_have_the_same_verbs():
    public = {name for name in dir(Client) if not name.startswith("_")}
    assert public == {name for name in dir(AsyncClient) if not name.startswith("_")}
    for name in public - {"close", "kv"}:
        one, other = (inspect.signature(getattr(kind, name)).parameters for kind in (Client, AsyncClient))
        assert list(one) == list(other), name
        assert [each.default for each in one.values()] == [each.default for each in other.values()], name


def test_a_block_renews_and_gives_back(backend, name):
    async def work(client: AsyncClient):
        async with client.lock(name, ttl=TTL, metadata={"build": 1}) as lease:
            first_end = lease.deadline
            while clock.now() < first_end:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            seen = await client.inspect(name)
            assert (seen.status, seen.fencing_token, seen.metadata) == ("held", lease.fencing_token, "build=1")
            with pytest.raises(octo.LockHeld):
                await client.acquire(name)
        assert lease.status is Status.RELEASED
        return (await client.inspect(name)).status

    assert run(backend, work) == "free"


def test_a_lost_lease_cuts_the_block_short(backend, operator, name):
    async def work(client: AsyncClient):
        told = []

        async def block() -> None:
            async with client.lock(name, ttl=TTL, interrupt=True, on_lost=told.append):
                await asyncio.to_thread(operator.force_release, name, reason="gone")
                await asyncio.sleep(60)

        with pytest.raises(octo.LeaseLost):
            await block()
        # The task itself was not cancelled.
        await asyncio.sleep(0)
        return [lease.status for lease in told]

    assert run(backend, work) == [Status.LOST]


def test_many_wait_at_once_and_take_turns(backend, name):
    async def work(client: AsyncClient):
        inside: list[int] = []
        most = 0

        async def one(number: int) -> int:
            nonlocal most
            async with client.lock(name, ttl=60, wait=40) as lease:
                inside.append(number)
                most = max(most, len(inside))
                await asyncio.sleep(0.01)
                inside.remove(number)
                return lease.fencing_token

        tokens = await asyncio.gather(*(one(number) for number in range(5)))
        assert len(set(tokens)) == 5
        return most

    assert run(backend, work) == 1


def test_several_names_jobs_and_lists(backend, name):
    async def work(client: AsyncClient):
        async with await client.acquire_all([f"{name}/1", f"{name}/2"], ttl=30) as leases:
            assert [lease.name for lease in leases] == [f"{name}/1", f"{name}/2"]
            assert [lock.name async for lock in client.locks(prefix=f"{name}/")] == [f"{name}/1", f"{name}/2"]
            async with await client.claim_next([f"{name}/1", f"{name}/3"]) as lease:
                assert lease.name == f"{name}/3"
        claim = await client.claim_job(name, "agent-7", None)
        assert (await client.get_job_owner(name)).owner == "agent-7"
        await client.heartbeat_job(name, claim.lease_id)
        await client.release_job(name, claim.lease_id)
        return await client.list_claimed_jobs(name)

    assert run(backend, work) == []


def test_a_singleton(backend, name):
    async def work(client: AsyncClient):
        calls = []

        refused = asyncio.Event()

        @client.singleton(name, ttl=60)
        async def report(number: int) -> int:
            calls.append(number)
            await refused.wait()
            return number

        async def one(number: int) -> int | None:
            result = await report(number)
            refused.set()
            return result

        return await asyncio.gather(one(1), one(2)), calls

    results, calls = run(backend, work)
    assert sorted(results, key=str) in ([1, None], [2, None])
    assert len(calls) == 1


def test_watching(backend, name):
    async def work(client: AsyncClient):
        seen = []
        async for event in client.watch(prefix=name):
            seen.append((event.event, event.lock_name))
            if event.event == "released":
                return seen
            if len(seen) == 1:
                async with client.lock(f"{name}/b", ttl=600):
                    pass

    async def first(client: AsyncClient):
        async with client.lock(f"{name}/a", ttl=600):
            return await work(client)

    expected = [("snapshot", f"{name}/a"), ("acquired", f"{name}/b"), ("released", f"{name}/b")]
    assert run(backend, first) == expected
