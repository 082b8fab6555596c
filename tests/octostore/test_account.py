"""Rotation, sessions, lists and the answers about the installation."""

from uuid import UUID

import pytest

from locks.api.views import bulk

pytestmark = pytest.mark.usefixtures("either_terms")


def test_rotation_names_the_user_and_the_namespace(call, operator_token):
    rotated = call("POST", "/auth/token/rotate").json()
    assert rotated["token"] != operator_token
    assert UUID(rotated["user_id"]).version == 8
    assert (rotated["github_username"], rotated["namespace"]) == ("operator", "blue/main")
    call("POST", "/locks/a/acquire", token=rotated["token"])
    assert call("GET", "/locks/a", token=rotated["token"]).json()["holder_id"] == rotated["user_id"]


def test_a_session_names_its_user(call):
    opened = call("POST", "/sessions", {"ttl_seconds": 60}).json()
    call("POST", "/locks/a/acquire", {"session_id": opened["session_id"]})
    session = call("GET", f"/sessions/{opened['session_id']}").json()
    assert UUID(session["user_id"]).version == 8
    assert (session["session_id"], session["lock_count"], session["active"]) == (opened["session_id"], 1, True)
    kept = call("POST", f"/sessions/{opened['session_id']}/keepalive").json()
    assert set(kept) >= {"session_id", "expires_at"}
    assert call("DELETE", f"/sessions/{opened['session_id']}").status_code == 204


def test_a_list_without_a_limit_is_not_paged(call, monkeypatch):
    names = [f"service/{number:03}" for number in range(120)]
    for start in (0, 100):
        call("POST", "/locks/acquire-all", {"names": names[start : start + 100]})
    listed = call("GET", "/locks?prefix=service/").json()
    assert [lock["name"] for lock in listed["locks"]] == names
    assert (listed["total"], listed["prefix"], listed["next_cursor"]) == (120, "service/", None)
    for lock in listed["locks"]:
        assert (lock["status"], type(lock["fencing_token"])) == ("held", int)
    monkeypatch.setattr(bulk, "MAX_UNPAGED", 50)
    bounded = call("GET", "/locks?prefix=service/").json()
    assert (len(bounded["locks"]), bounded["total"]) == (50, 120)
    rest = call("GET", f"/locks?prefix=service/&limit=1000&cursor={bounded['next_cursor']}").json()
    assert [lock["name"] for lock in rest["locks"]] == names[50:]


def test_health_and_status_need_no_token(call):
    health = call("GET", "/health", token=None).json()
    assert (health["healthy"], type(health["storage"]), type(health["db_size_bytes"])) == (True, str, int)
    status = call("GET", "/status", token=None).json()
    for field in ("active_locks", "total_users", "total_acquires", "total_releases"):
        assert type(status[field]) is int
