"""The key-value store of a layer: versions, compare-and-swap, access, lists, limits, and waiting for an entry."""

import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import connection

from locks.models import KvEntry, Layer
from locks.runs import kv
from tests.locks.runs.conftest import RunClient
from tests.polling import until


def test_versions_start_at_one_and_rise_by_one_a_write(lead):
    assert lead.get("/shared/a").status == 404
    assert lead.put("/shared/a", {"n": 1}).json() == {"path": "/shared/a", "version": 1}
    assert lead.put("/shared/a", {"n": 2}).json() == {"path": "/shared/a", "version": 2}
    entry = lead.get("/shared/a").json()
    assert (entry["value"], entry["encoding"], entry["version"], entry["written_by"]) == ({"n": 2}, "json", 2, "lead")


@pytest.mark.parametrize(
    ("encoding", "value"),
    [("json", None), ("json", [1.5, "ü"]), ("text", "zwölf\n"), ("base64", base64.b64encode(b"\0\xff").decode())],
)
def test_a_value_is_returned_as_it_was_written(lead, encoding, value):
    assert lead.put("/shared/a", value, encoding=encoding).status == 200
    entry = lead.get("/shared/a").json()
    assert (entry["value"], entry["encoding"]) == (value, encoding)


@pytest.mark.parametrize(("encoding", "value"), [("text", 1), ("base64", "not base64!"), ("xml", "a")])
def test_a_value_that_does_not_fit_its_encoding_is_refused(lead, encoding, value):
    assert lead.put("/shared/a", value, encoding=encoding).status == 422
    assert lead.call("PUT", "/kv/shared/a", {}).status == 422


def test_compare_and_swap(lead):
    mismatch = lead.put("/shared/a", 1, expected_version=1)
    assert (mismatch.status, mismatch.json()["code"], mismatch.json()["current_version"]) == (412, "conflict", 0)
    assert lead.put("/shared/a", 1, expected_version=0).json()["version"] == 1
    present = lead.put("/shared/a", 2, expected_version=0)
    assert (present.status, present.json()["current_version"]) == (412, 1)
    assert lead.put("/shared/a", 2, expected_version=1).json()["version"] == 2
    assert lead.put("/shared/a", 3, expected_version=1).json()["current_version"] == 2
    assert lead.get("/shared/a").json()["value"] == 2


def test_delete(lead):
    lead.put("/shared/a", 1)
    assert lead.call("DELETE", "/kv/shared/a?expected_version=2").json()["current_version"] == 1
    assert lead.call("DELETE", "/kv/shared/a?expected_version=1").status == 204
    assert lead.call("DELETE", "/kv/shared/a").status == 404
    assert lead.get("/shared/a").status == 404
    assert lead.ok("GET", "/kv?glob=/shared/**")["entries"] == []


def test_a_path_never_has_the_same_version_twice(lead):
    """Otherwise a compare-and-swap could replace another entry than the one that was read."""
    assert lead.put("/shared/a", "read").json()["version"] == 1
    assert lead.call("DELETE", "/kv/shared/a").status == 204
    assert lead.put("/shared/a", 1, expected_version=1).json()["current_version"] == 0
    assert lead.put("/shared/a", "another", expected_version=0).json()["version"] == 2
    assert lead.put("/shared/a", 1, expected_version=1).json()["current_version"] == 2
    assert lead.put("/shared/b", 1).json()["version"] == 1


def test_versions_do_not_repeat_after_deleted_paths_were_removed(lead):
    lead.put("/shared/a", 1)
    lead.put("/shared/a", 2)
    lead.put("/shared/b", 1)
    assert lead.call("DELETE", "/kv/shared/a").status == 204
    Layer.objects.update(kv_deleted_paths=kv.MAX_DELETED_PATHS)
    assert lead.call("DELETE", "/kv/shared/b").status == 204
    assert [entry.path for entry in KvEntry.objects.all()] == ["/shared/b"]
    assert lead.put("/shared/a", 3).json()["version"] == 3
    assert lead.put("/shared/b", 2).json()["version"] == 2
    assert lead.put("/shared/c", 1).json()["version"] == 3


@pytest.mark.parametrize(
    "path",
    [
        "/shared", "/shared/", "/shared//a", "/shared/./a", "/shared/../a", "/shared/a/..", "/./shared/a", "//shared/a",
        "/other/a", "/shared/a%00", "/shared/a%2F..%2Fb", "/shared/*", "/shared/a%3F", "/peer/worker-1", "/peer//x",
        "/peer/self", "/shared/a%252Fb", "/shared/%20", "/shared/" + "x" * 600,
    ],
)  # fmt: skip
def test_only_canonical_paths_are_accepted(lead, path):
    for response in (lead.put(path, 1), lead.get(path), lead.call("DELETE", f"/kv{path}")):
        assert (response.status, response.json()["code"]) == (400, "invalid_input"), path
    assert KvEntry.objects.count() == 0


@pytest.mark.parametrize(
    "path",
    ["/peer%2Fworker-2%2Fx", "/peer/worker-2%2fx", "/%70eer/worker-2/x", "/peer/worker%2D2/x"],
)
def test_an_encoded_path_is_judged_like_the_plain_one(lead, path):
    worker, other = lead.worker("worker-1"), lead.worker("worker-2")
    assert other.put("/peer/self/x", "secret").status == 200
    assert worker.get(path).status == 403
    assert worker.put(path, 1).status == 403
    assert other.get(path).json()["path"] == "/peer/worker-2/x"


# Who writes and reads what: the lead of the layer, a worker, and the worker that the path belongs to.
MATRIX = [
    ("/ref/a", {"lead"}, {"lead", "worker-1", "worker-2"}),
    ("/shared/a", {"lead", "worker-1", "worker-2"}, {"lead", "worker-1", "worker-2"}),
    ("/peer/worker-1/a", {"worker-1"}, {"lead", "worker-1"}),
    ("/peer/worker-2/a", {"worker-2"}, {"lead", "worker-2"}),
    ("/peer/lead/a", {"lead"}, {"lead"}),
    ("/leases/a", set(), set()),
]


@pytest.mark.parametrize(("path", "writers", "readers"), MATRIX, ids=[row[0] for row in MATRIX])
def test_the_access_matrix_of_a_layer(lead, path, writers, readers):
    actors = {actor.name: actor for actor in (lead, lead.worker("worker-1"), lead.worker("worker-2"))}
    for name, actor in actors.items():
        response = actor.put(path, name)
        assert response.status == (200 if name in writers else 403), name
        if response.status == 403:
            details = response.json()["details"]
            assert name in details
            assert path in details
            assert any(use in details for use in ("/shared/", "/peer/self/", "layer:a", "override=true"))
    for name, actor in actors.items():
        assert actor.get(path).status == (200 if name in readers else 403), name
        assert actor.call("GET", f"/kv{path}?wait_seconds=1").status == (200 if name in readers else 403), name
    assert actors["worker-1"].call("DELETE", f"/kv{path}").status == (204 if "worker-1" in writers else 403)


def test_a_lead_writes_below_another_actor_only_with_override(lead):
    worker, other = lead.worker("worker-1"), lead.worker("worker-2")
    refused = lead.put("/peer/worker-1/a", 1)
    assert refused.status == 403
    assert "belongs to worker-1" in refused.json()["details"]
    assert "override=true" in refused.json()["details"]
    assert lead.put("/peer/worker-1/a", 1, override=True).status == 200
    assert lead.call("PUT", "/kv/peer/worker-1/a?override=true", {"value": 2}).status == 200
    assert worker.get("/peer/self/a").json()["written_by"] == "lead"
    assert other.put("/peer/worker-1/a", 1, override=True).status == 403
    assert worker.put("/ref/a", 1, override=True).status == 403
    assert lead.call("DELETE", "/kv/peer/worker-1/a").status == 403
    assert lead.call("DELETE", "/kv/peer/worker-1/a?override=true").status == 204


def test_another_layer_is_another_store(server, lead, operator):
    first, second = lead.sublead("sub-1"), lead.sublead("sub-2", read_down=True)
    worker = second.worker("worker-1")
    for actor in (lead, first, second):
        assert actor.put("/shared/a", actor.name).status == 200
    assert [actor.get("/shared/a").json()["value"] for actor in (lead, first, second, worker)] == [
        "lead", "sub-1", "sub-2", "sub-2"
    ]  # fmt: skip
    worker.put("/peer/self/b", 1)
    down = f"layer={second.joined['layer_id']}"
    # The lead of the parent reads like the layer's own lead, if the layer allows it.
    assert lead.get(f"/peer/worker-1/b?{down}").json()["value"] == 1
    assert [entry["path"] for entry in lead.ok("GET", f"/kv?{down}")["entries"]] == ["/peer/worker-1/b", "/shared/a"]
    for caller, layer in ((lead, first), (first, second), (worker, lead), (second, lead)):
        assert caller.get(f"/shared/a?layer={layer.joined['layer_id']}").status == 404
    assert lead.worker("worker-2").get(f"/shared/a?{down}").status == 404
    anonymous = RunClient(server, "")
    assert anonymous.get("/shared/a").status == 401
    refused = operator.get("/shared/a")
    assert refused.status == 403
    assert "actor" in refused.json()["details"]


def test_lists_by_glob(lead):
    worker = lead.worker("worker-1")
    for path in ("/ref/plan", "/shared/a", "/shared/b", "/shared/x/a", "/shared/x/y/a", "/peer/lead/a"):
        lead.put(path, 1)
    worker.put("/peer/self/a", 1)

    def paths(caller: RunClient, glob: str) -> list[str]:
        return [entry["path"] for entry in caller.ok("GET", f"/kv?glob={glob}")["entries"]]

    assert paths(lead, "/shared/*") == ["/shared/a", "/shared/b"]
    assert paths(lead, "/shared/%3F") == ["/shared/a", "/shared/b"]
    assert paths(lead, "/shared/*/a") == ["/shared/x/a"]
    assert paths(lead, "/shared/**") == ["/shared/a", "/shared/b", "/shared/x/a", "/shared/x/y/a"]
    assert paths(lead, "/**/a") == ["/peer/lead/a", "/peer/worker-1/a", "/shared/a", "/shared/x/a", "/shared/x/y/a"]
    assert paths(lead, "/shared/.") == []
    # A worker sees its own part of /peer only, whatever the glob.
    assert paths(worker, "/peer/self/*") == ["/peer/worker-1/a"]
    for glob in ("/peer/*/a", "/peer/lead/*", "/p*/**", "/**", "/*eer/lead/a"):
        assert "/peer/lead/a" not in paths(worker, glob)
    assert worker.call("GET", "/kv?glob=shared").status == 400
    # A pattern with many wildcards would keep the database busy.
    assert worker.call("GET", f"/kv?glob=/shared/{'*a' * 9}").status == 400
    assert worker.call("GET", f"/kv?glob=/shared/{'*a' * 8}").status == 200
    assert worker.call("GET", "/kv?limit=0").status == 422
    (entry,) = worker.ok("GET", "/kv?glob=/ref/*")["entries"]
    assert entry | {"written_at": ""} == {
        "path": "/ref/plan", "version": 1, "encoding": "json", "size": 1, "written_by": "lead", "written_at": "",
    }  # fmt: skip


def test_many_keys_come_in_pages_of_a_thousand(lead):
    fill(lead, keys=1500)
    first = lead.ok("GET", "/kv?glob=/shared/**")
    assert len(first["entries"]) == 1000
    second = lead.ok("GET", f"/kv?glob=/shared/**&cursor={first['next_cursor']}")
    assert (len(second["entries"]), second["next_cursor"]) == (500, None)
    paths = [entry["path"] for page in (first, second) for entry in page["entries"]]
    assert paths == sorted(paths)
    assert len(set(paths)) == 1500


def fill(lead: RunClient, *, keys: int) -> None:
    layer = lead.joined["layer_id"]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO octo_kv_entry (layer_id, path, version, value, encoding, size, written_by, written_at)
            SELECT %s, '/shared/' || lpad(n::text, 6, '0'), 1, '1', 'json', 1, 'lead', now()
            FROM generate_series(1, %s) AS n
            """,
            [layer, keys],
        )
        cursor.execute("UPDATE octo_layer SET kv_keys = %s, kv_bytes = %s WHERE id = %s", [keys, keys, layer])


def test_limits_of_a_layer(lead):
    large = lead.put("/shared/a", "x" * (1024 * 1024), encoding="text")
    assert large.status == 200
    too_large = lead.put("/shared/b", "x" * (1024 * 1024 + 1), encoding="text")
    assert (too_large.status, too_large.json()["code"], too_large.json()["which"]) == (
        413, "store_limit_exceeded", "value",
    )  # fmt: skip
    lead.call("DELETE", "/kv/shared/a")
    fill(lead, keys=9_999)
    assert lead.put("/shared/a", 1).status == 200
    full = lead.put("/shared/b", 1)
    assert (full.status, full.json()["which"]) == (413, "keys")
    assert lead.put("/shared/a", 2).status == 200
    assert lead.call("DELETE", "/kv/shared/000001").status == 204
    assert lead.put("/shared/b", 1).status == 200
    Layer.objects.update(kv_bytes=64 * 1024 * 1024 - 3)
    assert lead.put("/shared/a", 1234).status == 200
    total = lead.put("/shared/a", 12345)
    assert (total.status, total.json()["which"]) == (413, "total")
    assert lead.put("/shared/a", 12).status == 200


def test_totals_are_exact_after_writes_and_deletes(lead):
    workers = [lead.worker(f"worker-{index}") for index in range(4)]

    def churn(worker: RunClient) -> None:
        for step in range(20):
            worker.put(f"/shared/{step % 3}", "x" * step)
            worker.put("/peer/self/own", step)
            worker.call("DELETE", f"/kv/shared/{(step + 1) % 3}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(churn, workers))
    layer = Layer.objects.get()
    entries = list(KvEntry.objects.present())
    assert (layer.kv_keys, layer.kv_bytes) == (len(entries), sum(len(bytes(entry.value)) for entry in entries))


def test_the_statement_has_the_limits_as_literals():
    sql = (Path(kv.__file__).parent / "sql" / "kv_put.sql").read_text()
    assert sql.count(f"> {kv.MAX_LAYER_BYTES} ") == 2
    assert sql.count(f"> {kv.MAX_LAYER_KEYS} ") == 2
    assert f">= {kv.MAX_DELETED_PATHS})" in (Path(kv.__file__).parent / "sql" / "kv_delete.sql").read_text()


def test_a_wait_returns_at_once_if_the_entry_is_written(lead):
    lead.put("/shared/a", 1)
    entry = lead.ok("GET", "/kv/shared/a?wait_seconds=60")
    assert (entry["value"], entry["version"]) == (1, 1)
    assert "timed_out" not in entry


def test_a_wait_blocks_until_the_entry_is_written_and_honours_the_version(lead):
    worker, other = lead.worker("worker-1"), lead.worker("worker-2")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(worker.ok, "GET", "/kv/shared/a?wait_seconds=30")
        second = pool.submit(other.ok, "GET", "/kv/shared/a?min_version=2&wait_seconds=30")
        until(lambda: Layer.objects.get().waited_until is not None)
        lead.put("/shared/other", 1)
        lead.put("/shared/a", "one")
        assert first.result(20)["value"] == "one"
        assert not second.done()
        lead.put("/shared/a", "two")
        assert second.result(20)["value"] == "two"


def test_a_wait_times_out_with_the_entry_as_it_is(lead):
    missing = lead.ok("GET", "/kv/shared/a?wait_seconds=1")
    assert missing == {
        "path": "/shared/a", "value": None, "encoding": None, "version": 0, "written_by": None, "written_at": None,
        "timed_out": True,
    }  # fmt: skip
    lead.put("/shared/a", 1)
    for query in ("min_version=2&wait_seconds=1", "min_version=2"):
        stale = lead.ok("GET", f"/kv/shared/a?{query}")
        assert (stale["value"], stale["version"], stale["timed_out"]) == (1, 1, True)
    assert lead.call("GET", "/kv/shared/a?wait_seconds=61").status == 422


def test_a_wait_ends_with_the_run_and_with_the_actor(orchestrator, lead):
    worker, other = lead.worker("worker-1"), lead.worker("worker-2")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(worker.call, "GET", "/kv/shared/a?wait_seconds=60")
        second = pool.submit(other.call, "GET", "/kv/shared/a?wait_seconds=60")
        until(lambda: Layer.objects.get().waited_until is not None)
        lead.ok("DELETE", f"/runs/{lead.run_id}/actors/worker-1", status=204)
        ended = first.result(20)
        assert (ended.status, ended.json()["code"]) == (410, "session_expired")
        assert not second.done()
        orchestrator.ok("POST", f"/runs/{lead.run_id}/finish", {})
        assert second.result(20).status == 410
