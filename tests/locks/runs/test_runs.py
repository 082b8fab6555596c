"""Runs, layers and actors over HTTP: who may join, what each may do, and how they end."""

import pytest

from locks.models import Event, Space, Token
from locks.tasks import sweep
from tests.conftest import issue
from tests.locks.runs.conftest import RunClient


def test_a_run_starts_with_a_root_layer_and_its_lead(orchestrator, lead):
    assert lead.joined["actor_id"] == "lead"
    assert lead.joined["role"] == "lead"
    run = orchestrator.ok("GET", f"/runs/{lead.run_id}")
    assert (run["name"], run["state"], run["max_depth"], run["lead"]) == ("nightly", "active", 3, "lead")
    (root,) = run["layers"]
    assert (root["layer_id"], root["parent_id"], root["depth"]) == (lead.joined["layer_id"], None, 1)
    (actor,) = root["actors"]
    assert (actor["actor_id"], actor["present"], actor["leases"]) == ("lead", True, 0)
    assert lead.ok("GET", f"/runs/{lead.run_id}")["run_id"] == lead.run_id
    (listed,) = orchestrator.ok("GET", "/runs?state=active")["runs"]
    assert listed["run_id"] == lead.run_id


def test_only_a_token_with_the_scope_starts_runs(operator):
    response = operator.call("POST", "/runs", {})
    assert (response.status, response.json()["code"]) == (403, "forbidden")
    assert "runs:manage" in response.json()["details"]


def test_the_tree_has_the_layers_of_all_subleads(orchestrator, lead):
    first = lead.sublead("sub-1", name="research", initial_ref={"plan": ["read", "write"]})
    lead.sublead("sub-2")
    first.worker("worker-1")
    nested = first.sublead("sub-3")
    layers = orchestrator.ok("GET", f"/runs/{lead.run_id}")["layers"]
    assert [(layer["name"], layer["depth"]) for layer in layers] == [
        ("root", 1), ("research", 2), ("sub-3", 3), ("sub-2", 2)
    ]  # fmt: skip
    assert [actor["actor_id"] for actor in layers[1]["actors"]] == ["sub-1", "worker-1"]
    assert first.ok("GET", "/kv/ref/plan")["value"] == ["read", "write"]
    response = nested.call("POST", f"/runs/{lead.run_id}/layers", {"lead": "sub-4"})
    assert (response.status, response.json()["code"]) == (409, "conflict")
    assert "3 layers" in response.json()["details"]


def test_a_layer_with_an_invalid_first_entry_is_not_created(orchestrator, lead):
    response = lead.call("POST", f"/runs/{lead.run_id}/layers", {"lead": "sub-1", "initial_ref": {"../plan": 1}})
    assert response.status == 400
    assert len(orchestrator.ok("GET", f"/runs/{lead.run_id}")["layers"]) == 1


@pytest.mark.parametrize("name", ["", "self", "..", "a/b", "a b", "x" * 65])
def test_the_name_of_an_actor_is_a_segment_of_a_path(lead, name):
    assert lead.call("POST", f"/runs/{lead.run_id}/actors", {"actor_id": name}).status == 422


def test_workers_add_nobody_and_names_are_unique_while_in_use(lead):
    worker = lead.worker("worker-1")
    refused = worker.call("POST", f"/runs/{lead.run_id}/actors", {"actor_id": "worker-2"})
    assert refused.status == 403
    assert "worker-1 is not a lead" in refused.json()["details"]
    assert lead.call("POST", f"/runs/{lead.run_id}/actors", {"actor_id": "worker-1"}).status == 409
    lead.ok("DELETE", f"/runs/{lead.run_id}/actors/worker-1", status=204)
    assert lead.worker("worker-1").token != worker.token


def test_scopes_and_prefixes_of_an_actor_are_within_those_of_its_creator(server, space, orchestrator):
    creator = RunClient(
        server, issue(space, "narrow", "locks:read", "runs:manage", "webhooks:manage", prefixes=["ci/"])
    )
    lead = creator.start()
    worker = lead.worker("worker-1")
    for actor in (lead, worker):
        token = actor.ok("GET", "/whoami")["token"]
        assert token["scopes"] == ["locks:read"]
        assert token["prefixes"] == [
            "ci/", f"layer:{lead.joined['layer_id']}/", f"run:{lead.run_id}/"
        ]  # fmt: skip
        assert actor.call("GET", "/locks/other").status == 403
        assert actor.call("GET", "/locks/layer:mine").status == 200
        assert actor.call("POST", "/runs", {}).status == 403


def test_tokens_of_actors_are_listed_with_their_run_only(server, space, orchestrator, lead):
    manager = RunClient(server, issue(space, "manager", "tokens:manage"))
    listed = {token["name"] for token in manager.ok("GET", "/tokens")["tokens"]}
    assert listed == {"orchestrator", "manager"}
    (layer,) = orchestrator.ok("GET", f"/runs/{lead.run_id}")["layers"]
    assert layer["actors"][0]["token"] == lead.token.split("_")[1]
    assert lead.call("POST", "/auth/token/rotate", {}).status == 409


def test_foreign_and_forged_tokens_find_nothing(server, red_space, orchestrator, lead):
    other = orchestrator.start().worker("worker-1")
    stranger = RunClient(server, issue(red_space, "stranger", "runs:manage", "locks:read", "locks:write"))
    for caller in (other, stranger):
        for method, path, body in (
            ("GET", "", None), ("GET", "/export", None), ("POST", "/drain", None), ("POST", "/finish", {}),
            ("POST", "/actors", {"actor_id": "x"}), ("POST", "/layers", {"lead": "x"}),
            ("DELETE", "/actors/lead", None),
        ):  # fmt: skip
            assert caller.call(method, f"/runs/{lead.run_id}{path}", body).status == 404, path
    forged = lead.token[:-1] + ("0" if lead.token[-1] != "0" else "1")
    assert RunClient(server, forged).call("GET", f"/runs/{lead.run_id}").status == 401
    assert RunClient(server, forged).call("GET", "/kv/shared/a").status == 401
    assert stranger.call("GET", "/kv/shared/a").status == 403


def test_an_actor_is_ended_by_itself_its_leads_and_the_orchestrator(orchestrator, lead):
    sub = lead.sublead("sub-1")
    other = lead.sublead("sub-2")
    workers = [sub.worker(f"worker-{index}") for index in range(4)]
    run = f"/runs/{lead.run_id}/actors"
    refused = other.call("DELETE", f"{run}/worker-0")
    assert refused.status == 403
    assert "sub-2 may not end worker-0" in refused.json()["details"]
    assert workers[1].call("DELETE", f"{run}/worker-0").status == 403
    for caller, target in ((workers[0], 0), (sub, 1), (lead, 2), (orchestrator, 3)):
        held = workers[target].acquire("layer:work")
        caller.ok("DELETE", f"{run}/worker-{target}", status=204)
        assert sub.ok("GET", "/locks/layer:work")["status"] == "free"
        assert workers[target].call("GET", "/kv/shared/a").status == 401
        event = Event.objects.filter(fencing_token=held["fencing_token"], kind="released").get()
        assert event.reason == ("the actor has left the run" if target == 0 else f"ended by {_token_name(caller)}")
    assert orchestrator.call("DELETE", f"{run}/worker-3").status == 404


def _token_name(client: RunClient) -> str:
    return client.joined.get("actor_id", "orchestrator")


def test_the_end_of_an_actor_frees_leases_of_every_kind_and_its_queue_places_in_one_commit(orchestrator, lead):
    worker = lead.worker("worker-1")
    for name in ("layer:a", "run:b", "plain"):
        assert worker.acquire(name, ephemeral=False)["status"] == "acquired"
    lead.ok("DELETE", f"/runs/{lead.run_id}/actors/worker-1", status=204)
    for name in ("layer:a", "run:b", "plain"):
        assert lead.ok("GET", f"/locks/{name}")["status"] == "free"
    ended = list(Event.objects.filter(kind="released").order_by("id"))
    assert {event.reason for event in ended} == {"ended by lead"}
    assert {event.actor_name.partition("@")[0] for event in ended} == {"lead"}
    txids = {event.txid for event in Event.objects.raw(
        "SELECT id, txid FROM octo_event WHERE kind IN ('released', 'session_ended', 'actor_ended')")}  # fmt: skip
    assert len(ended) == 3
    assert len(txids) == 1


def test_a_session_that_is_over_ends_its_actor(orchestrator, lead):
    worker = lead.worker("worker-1")
    worker.acquire("run:deploy")
    worker.ok("DELETE", f"/sessions/{worker.joined['session_id']}", status=204)
    assert lead.acquire("run:deploy")["status"] == "acquired"
    refused = worker.call("POST", "/locks/run:deploy/acquire", {})
    assert (refused.status, refused.json()["code"]) == (410, "session_expired")
    assert worker.call("PUT", "/kv/shared/a", {"value": 1}).status == 410
    sweep()
    (layer,) = orchestrator.ok("GET", f"/runs/{lead.run_id}")["layers"]
    ended = next(actor for actor in layer["actors"] if actor["actor_id"] == "worker-1")
    assert ended["end_reason"] == "its session or its token has ended"
    assert worker.call("GET", "/kv/shared/a").status == 401


def test_a_revoked_token_ends_its_actor(server, space, lead):
    manager = RunClient(server, issue(space, "manager", "tokens:manage"))
    worker, other = lead.worker("worker-1"), lead.worker("worker-2")
    worker.acquire("layer:a")
    other.acquire("layer:b")
    manager.ok("DELETE", f"/tokens/{worker.token.split('_')[1]}", status=204)
    assert lead.ok("GET", "/locks/layer:a")["status"] == "free"
    # By another way than the API: the sweep ends the actor.
    Token.objects.filter(public_id=other.token.split("_")[1]).update(revoked_at="2026-01-01T00:00:00Z")
    sweep()
    assert lead.ok("GET", "/locks/layer:b")["status"] == "free"


def test_a_draining_run_grants_nothing_new_and_keeps_what_it_has(orchestrator, lead):
    worker = lead.worker("worker-1")
    held = worker.acquire("layer:a")
    plain = worker.acquire("plain")
    assert orchestrator.ok("POST", f"/runs/{lead.run_id}/drain")["state"] == "draining"
    for name in ("layer:b", "run:b", "plain-b"):
        refused = worker.call("POST", f"/locks/{name}/acquire", {})
        assert (refused.status, refused.json()["code"]) == (409, "run_draining")
    for path, body in (("/locks/acquire-all", {"names": ["layer:b"]}), ("/locks/claim-next", {"names": ["layer:b"]})):
        assert worker.call("POST", path, body).json()["code"] == "run_draining"
    for path, body in (("actors", {"actor_id": "late"}), ("layers", {"lead": "late"})):
        refused = lead.call("POST", f"/runs/{lead.run_id}/{path}", body)
        assert (refused.status, refused.json()["code"]) == (409, "run_draining")
    worker.ok("POST", "/locks/layer:a/renew", {"lease_id": held["lease_id"]})
    worker.ok("POST", "/locks/layer:a/release", {"lease_id": held["lease_id"]})
    worker.ok("POST", "/locks/plain/renew", {"lease_id": plain["lease_id"]})
    assert worker.put("/shared/a", 1).status == 200
    assert orchestrator.ok("POST", f"/runs/{lead.run_id}/drain")["state"] == "draining"


def test_a_finished_run_has_no_tokens_and_no_leases(orchestrator, lead):
    sub = lead.sublead("sub-1")
    worker = sub.worker("worker-1")
    lead.acquire("run:a")
    worker.acquire("layer:a")
    finished = orchestrator.ok("POST", f"/runs/{lead.run_id}/finish", {"reason": "all done"})
    assert (finished["state"], finished["finish_reason"], finished["held"]) == ("finished", "all done", [])
    for actor in (lead, sub, worker):
        assert actor.call("GET", "/kv/shared/a").status == 401
    ended = Event.objects.filter(kind="released")
    assert {event.reason for event in ended} == {"all done"}
    txids = Event.objects.raw("SELECT id, txid FROM octo_event WHERE kind IN ('released', 'run_finished')")
    assert len({event.txid for event in txids}) == 1
    # A retry of the request finds it done; a drain is too late.
    assert orchestrator.ok("POST", f"/runs/{lead.run_id}/finish", {})["finish_reason"] == "all done"
    assert orchestrator.call("POST", f"/runs/{lead.run_id}/drain").status == 409


def test_the_root_lead_drains_and_finishes_its_run_and_nobody_below_does(lead):
    sub = lead.sublead("sub-1")
    assert sub.call("POST", f"/runs/{lead.run_id}/drain").status == 403
    assert sub.call("POST", f"/runs/{lead.run_id}/finish", {}).status == 403
    assert lead.ok("POST", f"/runs/{lead.run_id}/drain")["state"] == "draining"
    assert lead.ok("POST", f"/runs/{lead.run_id}/finish", {})["state"] == "finished"


def test_a_run_whose_lead_is_silent_finishes_by_itself(orchestrator, lead):
    worker = lead.worker("worker-1", ttl_seconds=300)
    worker.acquire("run:a")
    Token.objects.update(last_used_at=None)
    age_run(lead, seconds=3599)
    sweep()
    assert orchestrator.ok("GET", f"/runs/{lead.run_id}")["state"] == "active"
    age_run(lead, seconds=3601)
    sweep()
    run = orchestrator.ok("GET", f"/runs/{lead.run_id}")
    assert (run["state"], run["finish_reason"]) == ("finished", "the lead was silent for 3600 s")
    assert worker.call("GET", "/kv/shared/a").status == 401


def age_run(lead: RunClient, *, seconds: int) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE octo_run SET created_at = now() - %s * interval '1 second' WHERE id = %s", [seconds, lead.run_id]
        )
        cursor.execute(
            """
            UPDATE octo_session SET
                created_at = now() - %s * interval '1 second', last_keepalive_at = now() - %s * interval '1 second'
            WHERE id = %s
            """,
            [seconds, seconds, lead.joined["session_id"]],
        )


def test_everything_that_happens_to_a_run_is_in_the_history(orchestrator, lead, space: Space):
    worker = lead.worker("worker-1")
    lead.sublead("sub-1")
    lead.ok("DELETE", f"/runs/{lead.run_id}/actors/worker-1", status=204)
    orchestrator.ok("POST", f"/runs/{lead.run_id}/drain")
    orchestrator.ok("POST", f"/runs/{lead.run_id}/finish", {"reason": "done"})
    kinds = [event["kind"] for event in orchestrator.ok("GET", "/events?limit=100")["events"]]
    for kind in ("run_started", "actor_joined", "layer_created", "actor_ended", "run_drained", "run_finished"):
        assert kind in kinds
    assert worker.token not in str(list(Event.objects.values()))
