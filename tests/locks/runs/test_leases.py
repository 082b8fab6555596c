"""Leases of a layer and of a run: the names that only actors use, through every endpoint."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from locks.engine.execution import run
from locks.events.webhooks.outbox import fan_out
from locks.models import Lock, Space, Waiter
from locks.services import webhooks
from locks.services.audit import Actor
from tests.locks.events.event_stream import EventStream
from tests.polling import until


def test_the_same_name_in_two_layers_is_two_locks_and_a_run_name_spans_all(lead):
    first, second = lead.sublead("sub-1"), lead.sublead("sub-2")
    assert first.acquire("layer:next-chunk")["status"] == "acquired"
    assert second.acquire("layer:next-chunk")["status"] == "acquired"
    assert first.acquire("run:deploy")["status"] == "acquired"
    held = second.acquire("run:deploy")
    assert (held["status"], held["name"], held["owner"]) == ("held", "run:deploy", "sub-1")
    assert first.worker("worker-1").acquire("layer:next-chunk")["owner"] == "sub-1"


def test_the_stored_name_carries_the_id_and_no_answer_shows_it(lead, operator):
    lead.acquire("layer:a")
    stored = f"layer:{lead.joined['layer_id']}/a"
    assert Lock.objects.filter(name=stored, bound_session_id=lead.joined["session_id"]).exists()
    assert operator.ok("GET", f"/locks/{stored}")["owner"] == "lead"
    assert lead.ok("GET", "/locks/layer:a")["name"] == "layer:a"


@pytest.mark.parametrize("name", ["layer:a", "run:a", "layer:0/a"])
def test_other_tokens_cannot_acquire_such_names(operator, name):
    for path, body in (
        (f"/locks/{name}/acquire", {}), ("/locks/acquire-all", {"names": [name]}),
        ("/locks/claim-next", {"names": ["free", name]}),
    ):  # fmt: skip
        refused = operator.call("POST", path, body)
        assert (refused.status, refused.json()["code"]) == (403, "forbidden")
        assert "actor" in refused.json()["details"]


def test_an_actor_cannot_reach_the_locks_of_another_run(orchestrator, lead):
    other = orchestrator.start()
    lead.acquire("run:a")
    reached = other.acquire(f"run:{lead.run_id}/a")
    assert (reached["status"], reached["name"]) == ("acquired", f"run:{lead.run_id}/a")
    assert Lock.objects.filter(name=f"run:{other.run_id}/{lead.run_id}/a").exists()
    other.acquire("plain")
    names = [lock["name"] for lock in other.ok("GET", "/locks")["locks"]]
    assert names == ["plain", f"run:{lead.run_id}/a"]


def test_renew_release_and_force_release(lead, operator):
    lease = lead.acquire("run:a")
    renewed = lead.ok("POST", "/locks/run:a/renew", {"lease_id": lease["lease_id"], "ttl_seconds": 120})
    assert renewed["fencing_token"] == lease["fencing_token"]
    lead.ok("POST", "/locks/run:a/release", {"lease_id": lease["lease_id"]})
    assert lead.call("POST", "/locks/run:a/release", {"lease_id": lease["lease_id"]}).status == 404
    again = lead.acquire("run:a")
    assert again["fencing_token"] > lease["fencing_token"]
    stored = f"run:{lead.run_id}/a"
    released = operator.ok("POST", f"/locks/{stored}/force-release", {"reason": "stuck"})
    assert released["name"] == stored
    assert lead.ok("GET", "/locks/run:a")["status"] == "free"


def test_calls_for_many_names(lead):
    worker = lead.worker("worker-1")
    taken = lead.ok("POST", "/locks/acquire-all", {"names": ["layer:a", "run:b", "plain"]})
    assert sorted(lease["name"] for lease in taken["leases"]) == ["layer:a", "plain", "run:b"]
    held = worker.ok("POST", "/locks/acquire-all", {"names": ["layer:z", "run:b"]})
    assert [blocker["name"] for blocker in held["blocked_by"]] == ["run:b"]
    leases = [{"name": lease["name"], "lease_id": lease["lease_id"]} for lease in taken["leases"]]
    renewed = lead.ok("POST", "/locks/renew-all", {"leases": leases})["results"]
    assert [(each["name"], each["ok"]) for each in renewed] == [(lease["name"], True) for lease in leases]
    released = lead.ok("POST", "/locks/release-all", {"leases": leases})["results"]
    assert [(each["name"], each["ok"]) for each in released] == [(lease["name"], True) for lease in leases]
    lead.acquire("layer:job-1")
    claimed = worker.ok("POST", "/locks/claim-next", {"names": ["layer:job-1", "layer:job-2"]})
    assert (claimed["status"], claimed["name"]) == ("acquired", "layer:job-2")
    page = worker.ok("GET", "/locks?prefix=layer:&limit=1")
    assert [lock["name"] for lock in page["locks"]] == ["layer:job-1"]
    following = worker.ok("GET", f"/locks?prefix=layer:&limit=1&cursor={page['next_cursor']}")
    assert [lock["name"] for lock in following["locks"]] == ["layer:job-2"]


def test_an_actor_that_asks_again_keeps_its_lease(lead):
    first = lead.acquire("layer:a")
    assert lead.acquire("layer:a")["lease_id"] == first["lease_id"]


def test_three_acquires_at_once_have_one_winner(server, lead):
    workers = [lead.worker(f"worker-{index}") for index in range(3)]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda worker: worker.acquire("layer:a"), workers))
    assert sorted(answer["status"] for answer in answers) == ["acquired", "held", "held"]
    winner = next(answer["owner"] for answer in answers if answer["status"] == "acquired")
    assert {answer["owner"] for answer in answers} == {winner}


def test_a_waiter_gets_the_lock_on_release_and_one_for_another_name_is_undisturbed(server, lead):
    waiter, other = lead.worker("worker-1"), lead.worker("worker-2")
    lease, kept = lead.acquire("layer:a"), lead.acquire("run:b")
    with ThreadPoolExecutor(2) as pool:
        waits = pool.submit(waiter.acquire, "layer:a", wait_seconds=20)
        also_waits = pool.submit(other.acquire, "run:b", wait_seconds=20)
        until(lambda: Waiter.objects.count() == 2)
        lead.ok("POST", "/locks/layer:a/release", {"lease_id": lease["lease_id"]})
        got = waits.result(20)
        assert (got["status"], got["name"], got["owner"]) == ("acquired", "layer:a", "worker-1")
        assert not also_waits.done()
        lead.ok("POST", "/locks/run:b/release", {"lease_id": kept["lease_id"]})
        assert also_waits.result(20)["name"] == "run:b"


def test_a_wait_that_times_out_names_the_holder(lead):
    worker = lead.worker("worker-1")
    lead.acquire("run:a")
    held = worker.acquire("run:a", wait_seconds=1)
    assert (held["status"], held["name"], held["owner"]) == ("held", "run:a", "lead")
    assert held["waited_ms"] >= 1000


def test_requests_that_wait_are_refused_when_the_run_drains_or_finishes(orchestrator, lead):
    worker, other = lead.worker("worker-1"), lead.worker("worker-2")
    lead.acquire("run:a")
    with ThreadPoolExecutor(2) as pool:
        waits = pool.submit(worker.call, "POST", "/locks/run:a/acquire", {"wait_seconds": 30})
        until(lambda: Waiter.objects.count() == 1)
        orchestrator.ok("POST", f"/runs/{lead.run_id}/drain")
        refused = waits.result(20)
        assert (refused.status, refused.json()["code"]) == (409, "run_draining")
    assert Waiter.objects.count() == 0
    second = orchestrator.start()
    worker = second.worker("worker-1")
    second.acquire("run:a")
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(worker.call, "POST", "/locks/run:a/acquire", {"wait_seconds": 30})
        until(lambda: Waiter.objects.count() == 1)
        orchestrator.ok("POST", f"/runs/{second.run_id}/finish", {})
        assert waits.result(20).status == 401
    assert other.ok("GET", "/locks/run:a")["status"] == "held"


def test_a_worker_that_is_gone_loses_its_leases_with_its_session(lead):
    worker = lead.worker("worker-1", ttl_seconds=10)
    worker.acquire("run:deploy", ttl_seconds=600)
    # Nothing keeps the session alive: the waiting lead gets the lock at its end, long before the TTL of the lease.
    got = lead.acquire("run:deploy", wait_seconds=30)
    assert got["status"] == "acquired"
    assert worker.call("POST", f"/sessions/{worker.joined['session_id']}/keepalive").status in (401, 410)


def test_history_shows_an_actor_its_own_names(orchestrator, lead):
    other = orchestrator.start()
    other.acquire("run:a")
    lease = lead.acquire("run:a")
    lead.ok("POST", "/locks/run:a/release", {"lease_id": lease["lease_id"]})
    kinds = [(event["kind"], event["lock_name"]) for event in lead.ok("GET", "/locks/run:a/history")["events"]]
    assert kinds == [("released", "run:a"), ("acquired", "run:a")]
    named = [event["lock_name"] for event in lead.ok("GET", "/events")["events"] if event["lock_name"]]
    assert named == ["run:a", "run:a"]
    stored = {event["lock_name"] for event in orchestrator.ok("GET", "/events?prefix=run:")["events"]}
    assert stored == {f"run:{lead.run_id}/a", f"run:{other.run_id}/a"}


def test_an_actor_watches_its_own_names(server, orchestrator, lead):
    other = orchestrator.start()
    lead.acquire("layer:before")
    with closing(EventStream(server.port, "/watch", lead.token).connect()) as stream:
        events = stream.events()
        assert [lock["name"] for lock in next(events).data["locks"]] == ["layer:before"]
        other.acquire("run:a")
        lead.acquire("run:a")
        event = next(events).data
        assert (event["event"], event["lock_name"], event["owner"]) == ("acquired", "run:a", "lead")


def test_long_names_are_refused_with_their_limit(lead):
    refused = lead.call("POST", f"/locks/layer:{'x' * 220}/acquire", {})
    assert (refused.status, refused.json()["code"]) == (400, "invalid_lock_name")
    assert "219 bytes" in refused.json()["details"]


def test_webhooks_and_operators_see_stored_names(lead, operator):
    lead.acquire("run:deploy")
    listed = [lock["name"] for lock in operator.ok("GET", "/locks?prefix=run:")["locks"]]
    assert listed == [f"run:{lead.run_id}/deploy"]
    webhook = webhooks.create(
        actor=Actor.of_shell(), space=Space.objects.get(), url="https://hooks.example/in", prefix=f"run:{lead.run_id}/"
    )[1]
    lead.acquire("run:other")
    lead.acquire("layer:other")
    # Readers of the history stop before the oldest transaction that is still running, in any database of the server.
    # A webhook that was created meanwhile may begin a little earlier.
    until(lambda: run(fan_out()) or webhook.deliveries.filter(lock_name=f"run:{lead.run_id}/other").exists())
    delivered = {delivery.lock_name for delivery in webhook.deliveries.all()}
    assert delivered <= {f"run:{lead.run_id}/deploy", f"run:{lead.run_id}/other"}


def test_calls_are_counted_for_each_actor(lead, orchestrator):
    worker = lead.worker("worker-1")
    lead.acquire("layer:a")
    worker.acquire("layer:a")
    worker.put("/shared/a", 1)
    worker.put("/ref/a", 1)

    def counters() -> dict[str, int]:
        (layer,) = orchestrator.ok("GET", f"/runs/{lead.run_id}")["layers"]
        return next(actor["counters"] for actor in layer["actors"] if actor["actor_id"] == "worker-1")

    until(lambda: counters()["kv"] == 2)
    until(lambda: counters()["lease"] == 1)
    assert counters() == {"kv": 2, "kv_denied": 1, "lease": 1, "lease_denied": 0, "lease_contended": 1}
