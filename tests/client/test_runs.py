"""Runs, actors and their store through the client and the command line."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import octo
from octo import AsyncClient, Client
from tests.client.command_line import OCTO, CommandLine, eventually
from tests.client.guides import blocks


@pytest.fixture
def run(operator):
    with operator.run("nightly", ttl=30) as run:
        yield run


def test_a_run_finishes_with_its_block(operator):
    with operator.run("nightly", metadata={"build": 1}, ttl=30) as run:
        with run.layer("west", name="West") as lead, lead.actor("worker-1") as worker:
            info = operator.inspect_run(run.run_id)
            assert (info.name, info.state, info.metadata, info.actors_present) == ("nightly", "active", "build=1", 3)
            assert [actor["actor_id"] for layer in info.layers for actor in layer["actors"]] == [
                "lead", "west", "worker-1",
            ]  # fmt: skip
            assert (worker.role, worker.layer_id) == ("worker", lead.layer_id)
        assert operator.inspect_run(run.run_id).actors_present == 1
    info = operator.inspect_run(run.run_id)
    assert info.state == "finished"
    assert run.run_id in [one.run_id for one in operator.runs(state="finished")]


def test_a_run_whose_block_fails_says_so(operator):
    run = operator.run()
    with pytest.raises(KeyError), run:
        raise KeyError("x")
    assert operator.inspect_run(run.run_id).finish_reason == "ended by KeyError"


def test_locks_of_a_layer_and_of_a_run(run):
    with run.layer("west") as west, run.layer("east") as east:
        with west.lock("layer:next", ttl=30) as one, east.lock("layer:next", ttl=30) as other:
            assert one.name == other.name == "layer:next"
        with west.lock("run:deploy", ttl=30), pytest.raises(octo.LockHeld) as refused:
            east.acquire("run:deploy")
        assert refused.value.held.owner == "west"


def test_an_actor_that_leaves_frees_its_locks(run):
    worker = run.actor("worker-1").open()
    worker.acquire("layer:a", ttl=60)
    with pytest.raises(octo.LockHeld):
        run.acquire("layer:a")
    worker.close()
    run.acquire("layer:a").release()


def test_entries(run):
    store = run.kv
    assert store.set("/shared/a", {"n": [1, 2], "none": None}) == 1
    entry = store.get("/shared/a")
    assert (entry.value, entry.version, entry.written_by, entry.encoding) == (
        {"n": [1, 2], "none": None}, 1, "lead", "json",
    )  # fmt: skip
    store.set("/shared/b", b"\0\xff")
    assert store.get("/shared/b").value == b"\0\xff"
    store.set("/peer/self/c", "text", encoding="text")
    assert (store.get("/peer/lead/c").value, store.get("/peer/lead/c").encoding) == ("text", "text")
    assert [(one.path, one.size) for one in store.list("/shared/*")] == [("/shared/a", 23), ("/shared/b", 2)]
    store.delete("/shared/a")
    with pytest.raises(octo.NotFound):
        store.get("/shared/a")
    with pytest.raises(octo.NotFound):
        store.delete("/shared/a")


def test_compare_and_swap(run):
    store = run.kv
    assert store.cas("/shared/counter", 1, 0) == 1
    with pytest.raises(octo.VersionMismatch) as refused:
        store.cas("/shared/counter", 1, 0)
    assert refused.value.current_version == 1
    assert store.cas("/shared/counter", 2, 1) == 2


def test_who_may_write_where(run):
    with run.actor("worker-1") as worker:
        with pytest.raises(octo.Forbidden, match="worker-1"):
            worker.kv.set("/ref/plan", "x")
        with pytest.raises(octo.Forbidden):
            run.kv.set("/peer/worker-1/x", 1)
        assert run.kv.set("/peer/worker-1/x", 1, override=True) == 1
        with pytest.raises(octo.InvalidInput):
            worker.kv.get("/shared/../ref/plan")
        with pytest.raises(octo.StoreLimitExceeded) as refused:
            worker.kv.set("/shared/big", "x" * 1_100_000)
        assert refused.value.which == "value"


def test_the_store_of_a_layer_below(run):
    with run.layer("west", read_down=True, initial_ref={"plan": {"a": 1}}) as west:
        assert west.kv.get("/ref/plan").value == {"a": 1}
        assert run.kv.get("/ref/plan", layer=west.layer_id).value == {"a": 1}


def test_waiting_for_an_entry(run):
    assert run.kv.wait("/shared/x", timeout=0) is None
    with run.actor("worker-1") as worker:
        found: list[octo.Entry | None] = []
        waiting = threading.Thread(target=lambda: found.append(worker.kv.wait("/shared/x", min_version=2, timeout=30)))
        waiting.start()
        run.kv.set("/shared/x", 1)
        run.kv.set("/shared/x", 2)
        waiting.join()
        assert found[0].value == 2
        assert worker.kv.wait("/shared/x").version == 2


def test_a_wait_ends_with_the_run(operator):
    run = operator.run().open()
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            run.kv.wait("/shared/never")
        except octo.OctoError as problem:
            ended.append(problem)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.2)
    operator.finish_run(run.run_id)
    waiting.join()
    assert isinstance(ended[0], octo.SessionExpired | octo.AuthenticationFailed)
    run._client.close()


def test_draining(operator, run):
    held = run.acquire("run:a")
    assert run.drain().state == "draining"
    with pytest.raises(octo.RunDraining):
        run.actor("late").open()
    with pytest.raises(octo.RunDraining):
        run.acquire("run:b")
    held.renew()
    run.kv.set("/shared/x", 1)
    content = run.export()
    assert [(entry["path"], entry["version"]) for entry in content["entries"]] == [("/shared/x", 1)]
    assert [lease["lease_id"] for lease in content["leases"]] == [None]


def test_another_process_works_as_an_actor(run, tmp_path):
    worker = run.actor("worker-1", ttl=10).open()
    code = (
        "from octo import Client\n"
        "with Client() as client, client.join_run() as actor, actor.lock('layer:a') as lease:\n"
        "    actor.kv.set('/peer/self/done', actor.actor_id)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env={**os.environ, **worker.environment}, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0
    assert run.kv.get("/peer/worker-1/done").value == "worker-1"
    assert run.inspect().actors_present == 1
    with (
        pytest.raises(octo.ConfigurationError, match="OCTO_RUN_ID"),
        Client(run.environment["OCTO_URL"], "x") as client,
    ):
        client.join_run()


def test_on_an_event_loop(backend):
    async def work() -> object:
        async with (
            AsyncClient(backend.url, backend.operator_token) as client,
            client.run("async") as run,
            run.actor("worker-1") as worker,
            worker.lock("layer:a"),
        ):
            await worker.kv.set("/shared/x", 1)
            assert [entry.path async for entry in run.kv.list()] == ["/shared/x"]
            entry = await run.kv.wait("/shared/x", timeout=5)
            return entry.value if entry else None

    assert asyncio.run(work()) == 1


def test_a_worker_may_not_start_runs(client):
    with pytest.raises(octo.Forbidden):
        client.run().open()


def test_on_the_command_line(backend, tmp_path):
    line = CommandLine({"OCTO_URL": backend.url, "OCTO_TOKEN": backend.operator_token}, tmp_path)
    started = line.json("runs", "start", "--name", "nightly")["run"]
    run_id = started["run_id"]
    lead = {"OCTO_TOKEN": started["token"]}
    assert line.run("kv", "set", "/shared/note", "found it", **lead).stdout == "/shared/note is at version 1\n"
    assert line.run("kv", "get", "/shared/note", **lead).stdout == "found it\n"
    assert line.json("kv", "cas", "/shared/n", "41", "--encoding", "json", "--expected-version", "0", **lead) == {
        "entry": {"path": "/shared/n", "version": 1}
    }
    refused = line.run("kv", "cas", "/shared/n", "42", "--encoding", "json", "--expected-version", "0", **lead)
    assert refused.returncode == 4
    assert line.json("kv", "cas", "/shared/n", "x", "--expected-version", "0", **lead)["current_version"] == 1
    assert line.json("kv", "get", "/shared/n", **lead)["entry"]["value"] == 41
    assert [entry["path"] for entry in line.json("kv", "ls", "/shared/*", **lead)["entries"]] == [
        "/shared/n", "/shared/note",
    ]  # fmt: skip
    assert line.run("kv", "wait", "/shared/n", **lead).stdout == "41\n"
    assert line.run("kv", "wait", "/shared/never", "--timeout", "1", **lead).returncode == 124
    assert line.run("kv", "rm", "/shared/n", **lead).returncode == 0
    assert line.run("kv", "get", "/shared/n", **lead).returncode == 3
    shown = line.run("runs", "show", run_id).stdout
    assert shown.startswith("nightly  active  ")
    assert "lead  lead  kv:" in shown
    assert run_id in line.run("runs", "list", "--state", "unfinished").stdout
    assert line.run("runs", "drain", run_id).stdout == f"{run_id} is draining\n"
    exported = json.loads(line.run("runs", "export", run_id).stdout)
    assert [entry["path"] for entry in exported["entries"]] == ["/shared/note"]
    assert line.run("runs", "finish", run_id, "--reason", "done").returncode == 0
    assert line.json("runs", "show", run_id)["run"]["finish_reason"] == "done"
    eventually(lambda: line.run("kv", "get", "/shared/note", **lead).returncode == 7)


def test_values_of_any_kind_on_the_command_line(backend, run, tmp_path):
    line = CommandLine({"OCTO_URL": backend.url, "OCTO_TOKEN": run.token}, tmp_path)

    def octo_kv(*words: str, content: bytes = b"") -> bytes:
        done = subprocess.run(
            [*OCTO, "kv", *words], input=content, env=line._environment({}), check=True, capture_output=True
        )
        return done.stdout

    octo_kv("set", "/shared/raw", "-", content=b"\0\xff")
    assert octo_kv("get", "/shared/raw") == b"\0\xff"
    assert line.run("kv", "set", "/shared/x", "{", "--encoding", "json").returncode == 5


def test_the_guide_of_the_command_line(backend, tmp_path):
    (text,) = blocks("cli.md", "sh", section="Runs and their store")
    binaries = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"OCTO_URL": backend.url, "OCTO_TOKEN": backend.operator_token, "PATH": binaries}
    done = subprocess.run(
        ["bash", "-euo", "pipefail"], input=text, env={**os.environ, **environment, "XDG_STATE_HOME": str(tmp_path)},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "three chunks\n" in done.stdout
    assert done.stdout.endswith(" is finished\n")


def test_the_guide(backend, tmp_path):
    (text,) = blocks("client.md", "python", section="Runs")
    environment = {**os.environ, "OCTO_URL": backend.url, "ORCHESTRATOR_TOKEN": backend.operator_token}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text], env=environment, cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['worker-1 did chunk 1', 'worker-2 did chunk 2']\n"
