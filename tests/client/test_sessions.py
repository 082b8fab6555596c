"""Sessions from Python and the shell: many locks under one keepalive, all free when the process is gone."""

import asyncio

import pytest

from octo import AsyncClient, LeaseLost, SessionExpired, Status
from tests.client.command_line import eventually


def test_what_is_taken_with_a_session_ends_with_it(client, name):
    with client.session(ttl=10, owner="agent-7") as session:
        leases = [session.acquire(f"{name}/{number}", ttl=60) for number in range(5)]
        assert {lock.owner for lock in client.locks(prefix=f"{name}/")} == {"agent-7"}
        assert session.remaining > 9
    assert not list(client.locks(prefix=f"{name}/"))
    assert {lease.status for lease in leases} == {Status.RELEASED}


def test_one_session_is_kept_alive_and_the_other_is_lost_with_its_leases(client, octo, name):
    with client.session(ttl=10) as kept, client.session(ttl=10) as ended:
        before = kept.expires_at
        kept.acquire(f"{name}-1", ttl=60)
        lease = ended.acquire(f"{name}-2", ttl=60)
        assert octo.run("session", "end", ended.session_id).returncode == 0
        assert client.inspect(f"{name}-2").status == "free"
        # At the next keepalive.
        assert lease.lost.wait(15)
        assert (ended.status, lease.status) == (Status.LOST, Status.LOST)
        with pytest.raises(LeaseLost):
            lease.check()
        with pytest.raises(SessionExpired):
            ended.acquire(f"{name}-2")
        eventually(lambda: kept.expires_at > before)
        assert client.inspect(f"{name}-1").status == "held"


def test_a_block_within_a_session(client, name):
    with client.session(ttl=10) as session, session.lock(name, ttl=60) as lease:
        again = session.acquire(name, ttl=60)
        assert again.fencing_token == lease.fencing_token


def test_sessions_on_an_event_loop(backend, name):
    async def main():
        async with AsyncClient(backend.url, backend.worker_token) as client:
            async with await client.session(ttl=10, owner="agent-8") as session, session.lock(name, ttl=60):
                held = (await client.inspect(name)).owner
            return held, (await client.inspect(name)).status

    assert asyncio.run(main()) == ("agent-8", "free")


def test_sessions_from_the_shell(octo, name):
    session_id = octo.json("session", "start", "--ttl", "1m", "--owner", "agent-9")["session"]["session_id"]
    octo.json("lock", "acquire", name, "--session-id", session_id)
    assert octo.run("session", "keepalive", session_id).returncode == 0
    shown = octo.json("session", "show", session_id)["session"]
    assert (shown["owner"], shown["lock_count"], shown["active"]) == ("agent-9", 1, True)
    assert session_id in octo.run("session", "list").stdout
    assert octo.run("session", "end", session_id).returncode == 0
    assert octo.run("lock", "status", name).stdout == f"{name} is free\n"
    assert octo.run("session", "keepalive", session_id).returncode == 3
