"""The store under concurrency: two servers, many processes, thousands of waiting readers."""

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from locks.models import KvEntry, Layer
from tests.locks.runs.conftest import RunClient, orchestrator_token
from tests.octoadmin.http_client import head_of, read_reply
from tests.polling import until
from tests.servers import PROJECT_DIR, running_server

PROCESSES = 8
# `python -m tests.locks.runs.store_increments` with a larger number is the long form.
INCREMENTS = int(os.environ.get("OCTO_TEST_INCREMENTS", "25"))
READERS = 2_000
GENEROUS = {"OCTO_REQUESTS_PER_SECOND": "100000"}


@pytest.fixture
def second_server(server):
    with running_server(os.environ["DATABASE_URL"]) as second:
        yield second


@pytest.mark.timeout(900)
def test_increments_by_many_processes_through_two_servers_are_all_counted(server, second_server, lead):
    assert lead.put("/shared/counter", 0).status == 200
    workers = [lead.worker(f"worker-{number}", ttl_seconds=300) for number in range(PROCESSES)]
    processes = [
        subprocess.Popen(
            [
                sys.executable, "-m", "tests.locks.runs.store_increments",
                str((server, second_server)[number % 2].port), worker.token, str(INCREMENTS),
            ],
            cwd=PROJECT_DIR,
        )
        for number, worker in enumerate(workers)
    ]  # fmt: skip
    assert [process.wait(800) for process in processes] == [0] * PROCESSES
    # Not through the lead, whose session may be over by now.
    entry = KvEntry.objects.get()
    assert (bytes(entry.value), entry.version) == (b"%d" % (PROCESSES * INCREMENTS), PROCESSES * INCREMENTS + 1)


def test_a_write_through_one_server_wakes_a_reader_at_another(server, second_server, lead):
    worker = lead.worker("worker-1").at(second_server)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(worker.ok, "GET", "/kv/shared/a?wait_seconds=40")
        until(lambda: Layer.objects.get().waited_until is not None)
        lead.put("/shared/a", 1)
        assert waits.result(30)["value"] == 1


@pytest.mark.timeout(300)
def test_two_thousand_waiting_readers_hold_no_thread_and_no_connection(committed, space):
    """And a write wakes exactly those of its path."""
    with running_server(os.environ["DATABASE_URL"], **GENEROUS) as server:
        lead = RunClient(server, orchestrator_token(space)).start(session_ttl_seconds=300)
        asyncio.run(_wait_together(server.port, lead))


async def _wait_together(port: int, lead) -> None:
    headers = [(b"Host", b"localhost"), (b"Authorization", f"Bearer {lead.token}".encode())]
    readers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(READERS)]
    for number, (_, writer) in enumerate(readers):
        # Half of them wait for another path.
        path = f"/kv/shared/{'ab'[number % 2]}?wait_seconds=60"
        writer.write(head_of("GET", path, headers))
        if number % 500 == 499:
            # A request that needs a thread comes after those that were sent before: all of them wait by now.
            assert (await asyncio.to_thread(lead.get, "/no-path")).status == 400
    connections = await asyncio.to_thread(_connections)
    assert connections < 60
    assert (await asyncio.to_thread(lead.put, "/shared/a", "now")).status == 200
    replies = await asyncio.gather(*(read_reply(reader) for reader, _ in readers[::2]))
    assert {reply.json["value"] for reply in replies} == {"now"}
    others = [asyncio.ensure_future(read_reply(reader)) for reader, _ in readers[1::2]]
    done, waiting = await asyncio.wait(others, timeout=1)
    assert not done
    assert (await asyncio.to_thread(lead.put, "/shared/b", "too")).status == 200
    assert {reply.json["value"] for reply in await asyncio.gather(*waiting)} == {"too"}
    for _, writer in readers:
        writer.close()


def _connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        (count,) = cursor.fetchone()
    # In a thread of its own, which ends with the event loop.
    connection.close()
    return count
