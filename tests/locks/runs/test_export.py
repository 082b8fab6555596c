"""The export of a run: one snapshot, also kept at its end."""

import base64
import contextlib
import json
import socket
from concurrent.futures import ThreadPoolExecutor

from locks.models import Run, Waiter
from locks.runs import upkeep
from tests.polling import until


def test_an_export_has_entries_leases_actors_and_waiters_and_no_lease_id(orchestrator, lead):
    sub = lead.sublead("sub-1", name="research")
    worker = sub.worker("worker-1")
    lead.put("/shared/a", {"n": 1})
    worker.put("/peer/self/b", base64.b64encode(b"\0\1").decode(), encoding="base64")
    held = sub.acquire("run:deploy", metadata="host=a")
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(worker.acquire, "run:deploy", wait_seconds=30)
        until(lambda: Waiter.objects.count() == 1)
        export = orchestrator.ok("GET", f"/runs/{lead.run_id}/export")
        sub.ok("POST", "/locks/run:deploy/release", {"lease_id": held["lease_id"]})
        waits.result(20)
    entries = {(entry["layer"], entry["path"]): entry for entry in export["entries"]}
    first = entries["root", "/shared/a"]
    assert (first["version"], first["written_by"]) == (1, "lead")
    assert json.loads(base64.b64decode(first["value_b64"])) == {"n": 1}
    assert base64.b64decode(entries["research", "/peer/worker-1/b"]["value_b64"]) == b"\0\1"
    (lease,) = export["leases"]
    assert (lease["name"], lease["lease_id"], lease["holder"]) == ("run:deploy", None, "sub-1")
    assert [waiter["actor_id"] for waiter in export["waiters"]] == ["worker-1"]
    assert [actor["actor_id"] for actor in export["actors"]] == ["lead", "sub-1", "worker-1"]
    assert held["lease_id"] not in json.dumps(export)
    assert {"finalized_at", "layers", "run"} <= export.keys()


def test_exports_that_are_not_read_are_limited(server, orchestrator, lead):
    for path in ("/shared/a", "/shared/b", "/shared/c", "/shared/d"):
        lead.put(path, "x" * 1_000_000)
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            reader = stack.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", server.port))))
            head = f"GET /runs/{lead.run_id}/export HTTP/1.1\r\nHost: localhost\r\n"
            reader.sendall(f"{head}Authorization: Bearer {orchestrator.token}\r\n\r\n".encode())
            assert b" 200 " in reader.recv(100)
        refused = orchestrator.call("GET", f"/runs/{lead.run_id}/export")
        assert (refused.status, refused.json()["code"]) == (429, "rate_limited")
    until(lambda: orchestrator.call("GET", f"/runs/{lead.run_id}/export").status == 200)


def test_an_export_is_for_the_orchestrator_and_the_root_lead(orchestrator, lead, operator):
    assert lead.ok("GET", f"/runs/{lead.run_id}/export")["entries"] == []
    for refused in (lead.worker("worker-1"), lead.sublead("sub-1"), operator):
        assert refused.call("GET", f"/runs/{lead.run_id}/export").status == 403


def test_a_dump_shows_the_leases_that_the_end_of_the_run_freed(orchestrator):
    lead = orchestrator.start(dump=True)
    lead.acquire("run:a")
    lead.put("/shared/a", 1)
    orchestrator.ok("POST", f"/runs/{lead.run_id}/finish", {})
    export = orchestrator.ok("GET", f"/runs/{lead.run_id}/export")
    assert [lease["name"] for lease in export["leases"]] == ["run:a"]
    assert [entry["path"] for entry in export["entries"]] == ["/shared/a"]


def test_without_a_dump_a_finished_run_is_exported_as_it_is_until_retention(orchestrator, lead):
    lead.acquire("run:a")
    lead.put("/shared/a", 1)
    orchestrator.ok("POST", f"/runs/{lead.run_id}/finish", {})
    export = orchestrator.ok("GET", f"/runs/{lead.run_id}/export")
    assert export["leases"] == []
    assert [entry["path"] for entry in export["entries"]] == ["/shared/a"]
    assert upkeep.purge(days=30) == 0
    Run.objects.update(finished_at="2020-01-01T00:00:00Z")
    assert upkeep.purge(days=30) == 1
    assert orchestrator.call("GET", f"/runs/{lead.run_id}").status == 404
