"""Sessions over HTTP: works, refused, wrong state."""

from uuid import uuid4

import pytest

from locks.models import Token
from locks.services import tokens
from locks.services.audit import Actor
from tests.conftest import issue
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.usefixtures("each_path")


@pytest.fixture
def session_id(call):
    return call("POST", "/sessions", {"ttl_seconds": 30, "owner": "runner-7", "metadata": "host=a"}).json()[
        "session_id"
    ]


def test_a_session_from_beginning_to_end(call):
    opened = call("POST", "/sessions")
    assert opened.status_code == 201
    assert list(opened.json()) == ["session_id", "expires_at", "keepalive_interval_secs", "ttl_seconds"]
    assert opened.json()["keepalive_interval_secs"] == 20
    path = f"/sessions/{opened.json()['session_id']}"
    lease = call("POST", "/locks/deploy/acquire", {"session_id": opened.json()["session_id"]}).json()
    assert lease["status"] == "acquired"
    assert call("GET", "/locks/deploy").json()["session_id_present"] is True
    kept = call("POST", f"{path}/keepalive")
    assert kept.status_code == 200
    assert list(kept.json()) == ["session_id", "expires_at"]
    assert kept.json()["expires_at"] > opened.json()["expires_at"]
    seen = call("GET", path).json()
    assert (seen["lock_count"], seen["active"], seen["ttl_seconds"]) == (1, True, 60)
    assert call("DELETE", path).status_code == 204
    assert call("GET", "/locks/deploy").json()["status"] == "free"
    assert call("GET", path).json()["active"] is False


def test_the_list_has_active_sessions(call, session_id):
    ended = call("POST", "/sessions").json()["session_id"]
    call("DELETE", f"/sessions/{ended}")
    (listed,) = call("GET", "/sessions").json()["sessions"]
    assert (listed["session_id"], listed["owner"], listed["metadata"]) == (session_id, "runner-7", "host=a")


def test_asking_again_with_the_session_gives_the_same_lease(call, session_id):
    first = call("POST", "/locks/deploy/acquire", {"session_id": session_id}).json()
    again = call("POST", "/locks/deploy/acquire", {"session_id": session_id, "ttl_seconds": 1}).json()
    assert (again["status"], again["lease_id"], again["expires_at"]) == (
        "acquired", first["lease_id"], first["expires_at"]
    )  # fmt: skip


def test_claim_next_and_acquire_all_accept_a_session(call, session_id):
    call("POST", "/locks/claim-next", {"names": ["a"], "session_id": session_id})
    call("POST", "/locks/acquire-all", {"names": ["b", "c"], "session_id": session_id, "ephemeral": False})
    assert call("GET", f"/sessions/{session_id}").json()["lock_count"] == 3
    pass_seconds(31)
    assert [call("GET", f"/locks/{name}").json()["status"] for name in "abc"] == ["free", "held", "held"]


@pytest.mark.parametrize(("method", "suffix"), [("POST", "/keepalive"), ("GET", ""), ("DELETE", "")])
def test_unknown_sessions_and_those_of_other_tokens_are_not_found(call, session_id, method, suffix, space):
    other_token = issue(space, "other_token", "locks:read", "locks:write")
    for path, token in (
        (f"/sessions/{uuid4()}{suffix}", {}),
        (f"/sessions/{session_id}{suffix}", {"token": other_token}),
    ):
        refused = call(method, path, **token)
        assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    acquire = call("POST", "/locks/deploy/acquire", {"session_id": session_id}, token=other_token)
    assert (acquire.status_code, acquire.json()["code"]) == (404, "not_found")


def test_an_expired_session_is_gone(call, session_id):
    pass_seconds(31)
    for method, path, body in (
        ("POST", f"/sessions/{session_id}/keepalive", None),
        ("DELETE", f"/sessions/{session_id}", None),
        ("POST", "/locks/deploy/acquire", {"session_id": session_id}),
        ("POST", "/locks/claim-next", {"names": ["a"], "session_id": session_id}),
        ("POST", "/locks/acquire-all", {"names": ["a"], "session_id": session_id}),
    ):
        refused = call(method, path, body)
        assert (refused.status_code, refused.json()["code"]) == (410, "session_expired"), path


@pytest.mark.parametrize(
    ("asked", "given"), [(-1, 10), (0, 10), (9, 10), (10, 10), (300, 300), (301, 300), (10**30, 300)]
)
def test_the_ttl_is_clamped_and_the_answer_says_what_it_is(call, asked, given):
    opened = call("POST", "/sessions", {"ttl_seconds": asked})
    assert (opened.status_code, opened.json()["ttl_seconds"]) == (201, given)
    assert opened.json()["keepalive_interval_secs"] == given // 3
    assert call("GET", f"/sessions/{opened.json()['session_id']}").json()["ttl_seconds"] == given


def test_scopes(call, space, session_id):
    reader = issue(space, "reader", "locks:read")
    assert call("POST", "/sessions", token=reader).json()["code"] == "forbidden"
    assert call("GET", "/sessions", token=reader).json() == {"sessions": []}
    writer = issue(space, "writer", "locks:write")
    assert call("GET", "/sessions", token=writer).json()["code"] == "forbidden"
    assert call("POST", "/sessions", token=None).json()["code"] == "authentication_required"


def test_sessions_of_a_revoked_token_expire(call, space):
    plaintext = issue(space, "doomed", "locks:read", "locks:write")
    session_id = call("POST", "/sessions", {"ttl_seconds": 30}, token=plaintext).json()["session_id"]
    call("POST", "/locks/deploy/acquire", {"session_id": session_id, "ttl_seconds": 3600}, token=plaintext)
    tokens.revoke(actor=Actor.of_shell(), token=Token.objects.get(name="doomed"))
    assert call("POST", f"/sessions/{session_id}/keepalive", token=plaintext).status_code == 401
    assert call("GET", "/locks/deploy").json()["status"] == "held"
    pass_seconds(31)
    assert call("GET", "/locks/deploy").json()["status"] == "free"
