"""OctoStore's answers for administrators: /admin/status, and /metrics in JSON."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from locks.models.stats import StatsMinute
from tests.conftest import issue

pytestmark = pytest.mark.usefixtures("either_terms")

JSON = {"Accept": "application/json"}
PATHS = ("/admin/status", "/metrics")


@pytest.fixture
def busy(each_path, call, space, red_space):
    """A lock in the operator's space, and one in another."""
    call("POST", "/locks/deploy/acquire", {"ttl_seconds": 60, "metadata": "host=a"})
    theirs = issue(red_space, "theirs", "locks:read", "locks:write")
    call("POST", "/locks/secret/acquire", token=theirs)
    minute = datetime(2026, 11, 17, tzinfo=UTC)
    StatsMinute.objects.create(space_id=space.pk, minute=minute, acquired=7, released=5, expired=1)
    StatsMinute.objects.create(space_id=red_space.pk, minute=minute, acquired=100)


@pytest.mark.usefixtures("busy")
def test_status_lists_the_locks_of_the_space(call):
    answer = call("GET", "/admin/status", **JSON)
    body = answer.json()
    assert answer.status_code == 200
    assert (body["healthy"], body["active_locks"], body["total_acquires"], body["total_releases"]) == (True, 1, 7, 5)
    (lock,) = body["locks"]
    assert (lock["name"], lock["holder_username"], lock["metadata"]) == ("deploy", "operator", "host=a")
    assert type(lock["fencing_token"]) is int
    assert 0 < lock["ttl_remaining_seconds"] <= 60
    assert datetime.fromisoformat(lock["expires_at"]).tzinfo is not None
    assert type(body["uptime_seconds"]) is int


@pytest.mark.usefixtures("busy")
def test_users_are_listed_to_a_token_that_manages_them(call, space, operator_token):
    assert call("GET", "/admin/status").json()["users"] == []
    manager = issue(space, "manager", "locks:read", "locks:force", "tokens:manage")
    body = call("GET", "/admin/status", token=manager).json()
    assert [user["github_username"] for user in body["users"]] == ["operator", "manager"]
    assert body["total_users"] == 2
    for user in body["users"]:
        assert UUID(user["id"]).version == 8
        assert datetime.fromisoformat(user["created_at"]).tzinfo is not None


@pytest.mark.usefixtures("busy")
def test_a_token_with_prefixes_sees_locks_and_users_within_them(call, space, operator_token):
    call("POST", "/locks/ci/build/acquire", {"ttl_seconds": 60})
    scopes = ("locks:read", "locks:force", "tokens:manage")
    bound = issue(space, "bound", *scopes, prefixes=["ci/"])
    issue(space, "within", "locks:read", prefixes=["ci/nightly/"])
    body = call("GET", "/admin/status", token=bound).json()
    assert [lock["name"] for lock in body["locks"]] == ["ci/build"]
    assert [user["github_username"] for user in body["users"]] == ["bound", "within"]


@pytest.mark.usefixtures("each_path")
def test_an_actor_sees_no_lease_of_another_run(call, space):
    orchestrator = issue(space, "forceful", "locks:read", "locks:write", "locks:force", "runs:manage")
    own, other = (call("POST", "/runs", {}, token=orchestrator).json()["token"] for _ in range(2))
    for token in (own, other):
        assert call("POST", "/locks/run:deploy/acquire", {"ttl_seconds": 60}, token=token).status_code == 200
    listed = call("GET", "/admin/status", token=own).json()
    assert [lock["name"] for lock in listed["locks"]] == ["run:deploy"]


@pytest.mark.usefixtures("busy")
def test_the_locks_of_the_status_cost_as_much_as_those_of_the_list(call, monkeypatch):
    """One request, and one more for each row."""
    monkeypatch.setattr("locks.api.limits.ROWS_PER_REQUEST", 1e-6)
    assert [call("GET", "/admin/status").status_code for _ in range(2)] == [200, 429]


@pytest.mark.usefixtures("busy")
def test_metrics_have_octostores_fields(call):
    answer = call("GET", "/metrics", **JSON)
    body = answer.json()
    assert answer.status_code == 200
    assert (body["active_locks"], body["total_users"]) == (1, 1)
    for field in ("uptime_seconds", "total_requests", "memory_bytes"):
        assert type(body[field]) is int
    assert type(body["requests_per_second"]) is float
    assert body["lock_store"] == {
        "total_acquires": 7, "total_releases": 5, "total_expirations": 1, "cache_hits": 0, "cache_misses": 0,
    }  # fmt: skip
    assert set(body["endpoints"]) == {"acquire", "release", "renew", "status", "list", "auth", "election"}
    for endpoint in body["endpoints"].values():
        for field in ("avg_ms", "p50_ms", "p95_ms", "p99_ms"):
            assert float(endpoint[field]) >= 0
        for field in ("count", "errors", "min_ms", "max_ms"):
            assert type(endpoint[field]) is int


@pytest.mark.parametrize(
    "accept", [None, "*/*", "text/plain", "application/openmetrics-text, text/plain;q=0.5, */*;q=0.1"]
)
def test_metrics_are_prometheus_unless_json_is_asked_for(call, accept):
    answer = call("GET", "/metrics", token=None, **({"Accept": accept} if accept else {}))
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("path", PATHS)
def test_other_tokens_are_refused(call, worker_token, path):
    for token, status, code in (
        (None, 401, "authentication_required"),
        ("wrong", 401, "authentication_failed"),
        (worker_token, 403, "forbidden"),
    ):
        refused = call("GET", path, token=token, **JSON)
        assert (refused.status_code, refused.json()["code"]) == (status, code)


@pytest.mark.parametrize("path", PATHS)
def test_they_are_read_only(call, path):
    refused = call("POST", path, {}, **JSON)
    assert (refused.status_code, refused.json()["code"]) == (405, "invalid_input")
