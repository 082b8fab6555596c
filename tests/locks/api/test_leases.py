"""The life of a lease over HTTP: works, refused, wrong state."""

import time
from datetime import datetime
from uuid import UUID

import pytest

from locks.models import Event, Lock, Space, SpaceUsage
from tests.conftest import issue
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.usefixtures("each_path")


def test_acquire_renew_release(call):
    acquired = call("POST", "/locks/deploy-main/acquire", {"ttl_seconds": 60, "metadata": "host=runner-7 build=1842"})
    assert acquired.status_code == 200
    lease = acquired.json()
    assert list(lease) == [
        "status", "name", "lease_id", "fencing_token", "owner", "metadata", "acquired_at", "expires_at",
        "renew_after_ms",
    ]  # fmt: skip
    assert lease["status"] == "acquired"
    assert lease["metadata"] == "host=runner-7 build=1842"
    assert 29_000 < lease["renew_after_ms"] <= 30_000
    assert lease["expires_at"].endswith("Z")
    assert datetime.fromisoformat(lease["expires_at"]).tzinfo is not None

    renewed = call("POST", "/locks/deploy-main/renew", {"lease_id": lease["lease_id"], "ttl_seconds": 120})
    assert renewed.status_code == 200
    assert list(renewed.json()) == ["lease_id", "fencing_token", "expires_at", "renew_after_ms"]
    assert renewed.json()["expires_at"] > lease["expires_at"]

    released = call("POST", "/locks/deploy-main/release", {"lease_id": lease["lease_id"]})
    assert (released.status_code, released.content) == (200, b"null")
    again = call("POST", "/locks/deploy-main/release", {"lease_id": lease["lease_id"]})
    assert (again.status_code, again.json()["code"]) == (404, "lease_not_current")


def test_a_body_is_not_needed_to_acquire(call):
    assert call("POST", "/locks/deploy-main/acquire").json()["status"] == "acquired"


def test_held_describes_the_holder_but_has_no_lease_id(call):
    call("POST", "/locks/deploy-main/acquire", {"owner": "runner-7", "metadata": "m"})
    held = call("POST", "/locks/deploy-main/acquire", {"owner": "runner-8"})
    assert held.status_code == 200
    body = held.json()
    assert (body["status"], body["owner"], body["metadata"], body["waiters"]) == ("held", "runner-7", "m", 0)
    assert UUID(body["holder_id"]).version == 8
    assert 0 < body["retry_after_ms"] <= 5000
    assert "lease_id" not in body


def test_delayed_is_a_409_with_the_end_of_the_cooldown(call):
    lease = call("POST", "/locks/deploy-main/acquire", {"lock_delay_seconds": 30}).json()
    call("POST", "/locks/deploy-main/release", {"lease_id": lease["lease_id"]})
    delayed = call("POST", "/locks/deploy-main/acquire")
    assert delayed.status_code == 409
    assert list(delayed.json()) == ["status", "name", "available_at", "lock_delay_seconds", "retry_after_ms"]
    assert delayed.json()["status"] == "delayed"
    assert delayed.json()["lock_delay_seconds"] == 30
    state = call("GET", "/locks/deploy-main").json()
    assert (state["status"], state["available_at"]) == ("delayed", delayed.json()["available_at"])


def test_a_name_with_a_slash_is_the_same_encoded_or_not(call):
    assert call("POST", "/locks/path:src/auth.rs/acquire").json()["name"] == "path:src/auth.rs"
    assert call("POST", "/locks/path:src%2Fauth.rs/acquire").json()["status"] == "held"
    assert call("GET", "/locks/path:src/auth.rs").json()["status"] == "held"


def test_inspect_is_200_for_an_unknown_name(call):
    assert call("GET", "/locks/never-was").json() == {
        "name": "never-was", "status": "free", "owner": None, "holder_id": None, "metadata": None,
        "fencing_token": 0, "acquired_at": None, "renewed_at": None, "expires_at": None,
        "session_id_present": False, "waiters": 0, "available_at": None,
    }  # fmt: skip


def test_a_free_lock_has_its_last_fencing_token(call):
    lease = call("POST", "/locks/deploy-main/acquire", {"lock_delay_seconds": 1}).json()
    call("POST", "/locks/deploy-main/release", {"lease_id": lease["lease_id"]})
    delayed = call("GET", "/locks/deploy-main").json()
    assert (delayed["status"], delayed["fencing_token"]) == ("delayed", lease["fencing_token"])
    pass_seconds(2)
    free = call("GET", "/locks/deploy-main").json()
    assert (free["status"], free["fencing_token"]) == ("free", lease["fencing_token"])


def test_an_expired_lock_is_free_before_any_sweep(call):
    lease = call("POST", "/locks/deploy-main/acquire", {"ttl_seconds": 1}).json()
    time.sleep(1.05)
    assert call("GET", "/locks/deploy-main").json()["status"] == "free"
    renewed = call("POST", "/locks/deploy-main/renew", {"lease_id": lease["lease_id"]})
    assert (renewed.status_code, renewed.json()["code"]) == (404, "lease_not_current")


def test_renewing_under_another_lease_is_400(call):
    call("POST", "/locks/deploy-main/acquire")
    other = call("POST", "/locks/other/acquire").json()["lease_id"]
    refused = call("POST", "/locks/deploy-main/renew", {"lease_id": other})
    assert (refused.status_code, refused.json()["code"]) == (400, "lease_not_current")


class TestForceRelease:
    def test_releases_and_returns_the_previous_holder(self, call):
        lease = call("POST", "/locks/deploy-main/acquire", {"owner": "runner-7"}).json()
        done = call(
            "POST", "/locks/deploy-main/force-release",
            {"reason": "host is gone", "fencing_token": lease["fencing_token"]},
        )  # fmt: skip
        assert done.status_code == 200
        assert done.json()["status"] == "released"
        assert done.json()["previous"]["owner"] == "runner-7"
        assert "lease_id" not in done.content.decode()
        event = Event.objects.get(kind="force_released")
        assert (event.reason, event.actor_kind, event.actor_name) == ("host is gone", "token", "operator")
        assert event.request_id == done["X-Request-Id"]

    def test_is_rejected_after_the_fencing_token_has_changed(self, call):
        lease = call("POST", "/locks/deploy-main/acquire").json()
        refused = call(
            "POST",
            "/locks/deploy-main/force-release",
            {"reason": "x", "fencing_token": lease["fencing_token"] - 1},
        )
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
        assert call("GET", "/locks/deploy-main").json()["status"] == "held"

    def test_needs_a_reason(self, call):
        call("POST", "/locks/deploy-main/acquire")
        for body in ({}, {"reason": ""}, {"reason": "  "}, {"reason": None}, {"reason": "x" * 501}):
            assert call("POST", "/locks/deploy-main/force-release", body).status_code == 422
        assert call("GET", "/locks/deploy-main").json()["status"] == "held"

    def test_of_a_free_lock_is_404(self, call):
        refused = call("POST", "/locks/deploy-main/force-release", {"reason": "x"})
        assert (refused.status_code, refused.json()["code"]) == (404, "lease_not_current")

    def test_needs_the_scope(self, call, worker_token):
        call("POST", "/locks/deploy-main/acquire")
        refused = call("POST", "/locks/deploy-main/force-release", {"reason": "x"}, token=worker_token)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert "locks:force" in refused.json()["details"]


class TestIdempotencyKey:
    def test_a_retry_gets_the_same_lease(self, call):
        headers = {"Idempotency-Key": "run-1842"}
        first = call("POST", "/locks/deploy-main/acquire", {"ttl_seconds": 60}, **headers).json()
        retry = call("POST", "/locks/deploy-main/acquire", {"ttl_seconds": 60}, **headers).json()
        assert retry["status"] == "acquired"
        assert (retry["lease_id"], retry["fencing_token"]) == (first["lease_id"], first["fencing_token"])
        assert Event.objects.filter(kind="acquired").count() == 1

    def test_with_another_body_is_409(self, call):
        headers = {"Idempotency-Key": "run-1842"}
        call("POST", "/locks/deploy-main/acquire", {"ttl_seconds": 60}, **headers)
        refused = call("POST", "/locks/deploy-main/acquire", {"ttl_seconds": 61}, **headers)
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")

    def test_other_json_with_the_same_content_is_the_same_request(self, call):
        headers = {"Idempotency-Key": "run-1842"}
        first = call("POST", "/locks/a/acquire", raw=b'{"owner":"x","ttl_seconds":60}', **headers).json()
        retry = call("POST", "/locks/a/acquire", raw=b'{ "ttl_seconds": 60, "owner": "x" }', **headers).json()
        assert retry["lease_id"] == first["lease_id"]

    @pytest.mark.parametrize("key", ["", "a b", "x" * 256])
    def test_must_be_printable_and_short(self, call, key):
        assert call("POST", "/locks/a/acquire", **{"Idempotency-Key": key}).status_code == 422

    def test_works_for_claim_next_and_acquire_all(self, call):
        headers = {"Idempotency-Key": "run-1842"}
        for path in ("/locks/claim-next", "/locks/acquire-all"):
            prefix = path[-3:]
            body = {"names": [f"{prefix}-a", f"{prefix}-b"]}
            first, retry = (call("POST", path, body, **headers).json() for _ in range(2))
            assert "acquired" == first["status"] == retry["status"]
            assert [lease["lease_id"] for lease in first.get("leases", [first])] == [
                lease["lease_id"] for lease in retry.get("leases", [retry])
            ]
            other = call("POST", path, {**body, "ttl_seconds": 5}, **headers)
            assert (other.status_code, other.json()["code"]) == (409, "conflict")


def test_the_limit_of_live_locks_of_a_space(call, space):
    from locks.api.usage_flusher import usage_flusher

    Space.objects.filter(pk=space.pk).update(max_live_locks=1)
    call("POST", "/locks/a/acquire")
    usage_flusher.flush()
    refused = call("POST", "/locks/b/acquire")
    assert (refused.status_code, refused.json()["code"]) == (403, "lock_limit_exceeded")
    assert not Lock.objects.filter(name="b").exists()


def test_another_teams_lock_cannot_be_seen_or_touched(call, red_space):
    lease = call("POST", "/locks/deploy-main/acquire", {"owner": "blue"}).json()
    other_token = issue(red_space, "other_token", "locks:read", "locks:write", "locks:force")
    assert call("GET", "/locks/deploy-main", token=other_token).json()["status"] == "free"
    assert call("GET", "/locks", token=other_token).json()["locks"] == []
    for verb, body in (("renew", {}), ("release", {}), ("force-release", {"reason": "x"})):
        body["lease_id"] = lease["lease_id"]
        refused = call("POST", f"/locks/deploy-main/{verb}", body, token=other_token)
        assert (refused.status_code, refused.json()["code"]) == (404, "lease_not_current")


def test_a_limit_of_the_space_is_named_in_the_error(call, space):
    Space.objects.filter(pk=space.pk).update(max_names=1, max_events=5)
    usage = SpaceUsage.objects.create(space=space, names=1)
    refused = call("POST", "/locks/new/acquire")
    assert (refused.status_code, refused.json()["code"]) == (403, "lock_limit_exceeded")
    assert "limit of live locks, names or sessions" in refused.json()["details"]
    SpaceUsage.objects.filter(pk=usage.pk).update(names=0, events=5)
    refused = call("POST", "/locks/new/acquire")
    assert (refused.status_code, refused.json()["code"]) == (403, "lock_limit_exceeded")
    assert "limit of events" in refused.json()["details"]
    opened = call("POST", "/sessions")
    assert (opened.status_code, opened.json()["code"]) == (403, "lock_limit_exceeded")
