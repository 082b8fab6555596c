"""Who holds a lock: the token, or the session."""

import pytest

from tests.conftest import issue
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.usefixtures("each_path")


def open_session(call, **fields):
    return call("POST", "/sessions", {"ttl_seconds": 30, **fields}).json()["session_id"]


def acquire(call, **fields):
    return call("POST", "/locks/deploy/acquire", {"ttl_seconds": 60, **fields}).json()


@pytest.mark.usefixtures("compatible")
def test_the_token_holds_a_plain_lock_whatever_the_metadata(call, space):
    first = acquire(call, metadata="a")
    again = acquire(call, metadata="b")
    assert (again["status"], again["lease_id"], again["metadata"]) == ("acquired", first["lease_id"], "a")
    other = issue(space, "other", "locks:write")
    assert call("POST", "/locks/deploy/acquire", {"metadata": "a"}, token=other).json()["status"] == "held"


def test_on_our_own_terms_asking_again_is_held(call):
    acquire(call, metadata="a")
    assert acquire(call, metadata="a")["status"] == "held"


@pytest.mark.usefixtures("either_terms")
def test_of_two_ephemeral_sessions_of_one_token_exactly_one_holds(call):
    one, other = open_session(call), open_session(call)
    held = [acquire(call, session_id=session, ephemeral=True)["status"] for session in (one, other)]
    assert held == ["acquired", "held"]
    assert acquire(call, session_id=one, ephemeral=True)["status"] == "acquired"
    assert acquire(call, session_id=other, ephemeral=True)["status"] == "held"


@pytest.mark.usefixtures("either_terms")
def test_when_the_first_crashes_the_second_gets_the_lock_after_its_session(call):
    one, other = open_session(call), open_session(call, ttl_seconds=300)
    first = acquire(call, session_id=one, ephemeral=True)
    pass_seconds(31)
    second = acquire(call, session_id=other, ephemeral=True)
    assert second["status"] == "acquired"
    assert second["fencing_token"] > first["fencing_token"]
    released = call("POST", "/locks/deploy/release", {"lease_id": first["lease_id"]})
    assert (released.status_code, released.json()["code"]) == (400, "lease_not_current")
    assert call("GET", "/locks/deploy").json()["fencing_token"] == second["fencing_token"]


@pytest.mark.parametrize("way", ["acquire", "claim-next", "acquire-all"])
@pytest.mark.parametrize(("terms", "status"), [("each_path", "free"), ("compatible", "held")])
def test_whether_a_lease_ends_with_its_session_unless_it_says(call, request, terms, status, way):
    """On OctoStore's terms only an ephemeral one does."""
    request.getfixturevalue(terms)
    session = open_session(call)
    body = {"ttl_seconds": 60, "session_id": session}
    if way == "acquire":
        call("POST", "/locks/deploy/acquire", body)
    else:
        call("POST", f"/locks/{way}", {**body, "names": ["deploy"]})
    call("DELETE", f"/sessions/{session}")
    assert call("GET", "/locks/deploy").json()["status"] == status


@pytest.mark.usefixtures("either_terms")
def test_a_session_and_no_session_are_different_holders(call):
    session = open_session(call)
    lease = acquire(call, session_id=session)
    assert acquire(call)["status"] == "held"
    call("POST", "/locks/deploy/release", {"lease_id": lease["lease_id"]})
    acquire(call)
    assert acquire(call, session_id=session)["status"] == "held"


@pytest.mark.usefixtures("either_terms")
@pytest.mark.parametrize("verb", ["renew", "release"])
def test_a_lease_belongs_to_its_token(call, space, verb):
    lease = acquire(call)
    other = issue(space, "other", "locks:write")
    refused = call("POST", f"/locks/deploy/{verb}", {"lease_id": lease["lease_id"]}, token=other)
    assert (refused.status_code, refused.json()["code"]) == (400, "lease_not_current")
    assert call("GET", "/locks/deploy").json()["expires_at"] == lease["expires_at"]


@pytest.mark.usefixtures("either_terms")
def test_a_session_and_its_lease_pass_to_the_rotated_token(call, space):
    token = issue(space, "worker", "locks:read", "locks:write")
    session = call("POST", "/sessions", {"ttl_seconds": 60}, token=token).json()["session_id"]
    body = {"ttl_seconds": 60, "session_id": session, "ephemeral": True}
    lease = call("POST", "/locks/deploy/acquire", body, token=token).json()
    successor = call("POST", "/auth/token/rotate", token=token).json()["token"]
    assert call("POST", f"/sessions/{session}/keepalive", token=successor).status_code == 200
    assert call("GET", f"/sessions/{session}", token=successor).json()["lock_count"] == 1
    assert [row["session_id"] for row in call("GET", "/sessions", token=successor).json()["sessions"]] == [session]
    again = call("POST", "/locks/deploy/acquire", body, token=successor).json()
    assert (again["status"], again["lease_id"]) == ("acquired", lease["lease_id"])
    renewed = call("POST", "/locks/deploy/renew", {"lease_id": lease["lease_id"]}, token=successor)
    assert renewed.status_code == 200
    assert call("DELETE", f"/sessions/{session}", token=successor).status_code == 204
    assert call("GET", "/locks/deploy").json()["status"] == "free"


@pytest.mark.usefixtures("either_terms")
def test_no_other_token_may_use_a_session(call, space):
    session = open_session(call)
    other = issue(space, "other", "locks:read", "locks:write")
    for method, path in (("GET", ""), ("POST", "/keepalive"), ("DELETE", "")):
        refused = call(method, f"/sessions/{session}{path}", token=other)
        assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    refused = call("POST", "/locks/deploy/acquire", {"session_id": session}, token=other)
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
