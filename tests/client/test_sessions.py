"""Sessions from Python and the shell: many locks under one keepalive, all free when the process is gone."""

import asyncio
import os
import subprocess
import sys

import pytest

from octo import AsyncClient, LeaseLost, LockHeld, SessionExpired, Status, clock
from tests.client.command_line import eventually

# Takes what it is told to with one session, says so, and works on while the session is kept alive.
HOLDER = """
import sys, time
from octo import Client
with Client() as client, client.session(ttl=10, owner="doomed") as session:
    for name in sys.argv[1:]:
        session.acquire(name, ttl=600)
    print("ready", flush=True)
    time.sleep(600)
"""


def test_what_is_taken_with_a_session_ends_with_it(client, name):
    began = clock.now()
    with client.session(ttl=10, owner="agent-7") as session:
        leases = [session.acquire(f"{name}/{number}", ttl=60) for number in range(5)]
        assert {lock.owner for lock in client.locks(prefix=f"{name}/")} == {"agent-7"}
        assert session.deadline > began + 9
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


@pytest.mark.timeout(90)
def test_a_process_that_is_killed_loses_its_locks_with_its_session(client, operator, backend, name):
    """Without a sweep: a waiter is handed its lock in time, and a later request finds the other one free."""
    waited_for, asked_for = f"{name}/1", f"{name}/2"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, waited_for, asked_for],
        env={**os.environ, **backend.environment}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout.readline() == "ready\n"
    holder.kill()
    holder.communicate()
    with pytest.raises(LockHeld):
        client.acquire(asked_for)
    assert client.acquire(waited_for, wait=40, owner="next").owner == "next"
    client.acquire(asked_for)
    for taken in (waited_for, asked_for):
        (ended,) = [event for event in operator.history(taken) if event["kind"] == "expired"]
        assert (ended["owner"], ended["reason"]) == ("doomed", "its session expired")


def test_a_block_within_a_session(client, name):
    with client.session(ttl=10) as session, session.lock(name, ttl=60) as lease:
        again = session.acquire(name, ttl=60)
        assert again.fencing_token == lease.fencing_token


def test_sessions_on_an_event_loop(backend, name):
    async def main():
        async with AsyncClient(backend.url, backend.worker_token) as client:
            async with client.session(ttl=10, owner="agent-8") as session, session.lock(name, ttl=60):
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
