"""Every endpoint, status, field type and error code that OctoStore's clients read."""

from datetime import datetime
from uuid import UUID

import pytest

pytestmark = pytest.mark.usefixtures("either_terms")

UNKNOWN = "3f8e4a4c-6b5c-4ca8-9a8f-0f6ea4f4d9a5"


def is_time(value: object) -> bool:
    return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None


def is_uuid(value: object) -> bool:
    return isinstance(value, str) and str(UUID(value)) == value


def is_integer(value: object) -> bool:
    return type(value) is int


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_flag(value: object) -> bool:
    return isinstance(value, bool)


ACQUIRED = {"lease_id": is_uuid, "fencing_token": is_integer, "expires_at": is_time, "name": is_text}
HELD = {"holder_id": is_uuid, "fencing_token": is_integer, "expires_at": is_time, "name": is_text, "metadata": is_text}
RENEWED = {"lease_id": is_uuid, "expires_at": is_time}
SESSION_OPENED = {"session_id": is_uuid, "expires_at": is_time, "keepalive_interval_secs": is_integer}
SESSION = {
    "session_id": is_uuid, "user_id": is_uuid, "expires_at": is_time, "lock_count": is_integer, "active": is_flag,
}  # fmt: skip


def check(answer: dict, fields: dict) -> None:
    for field, is_right in fields.items():
        assert is_right(answer[field]), (field, answer[field])


def test_the_life_of_a_lock(call, space):
    acquired = call("POST", "/locks/deploy/acquire", {"ttl_seconds": 60, "metadata": "host=a"})
    assert (acquired.status_code, acquired.json()["status"]) == (200, "acquired")
    check(acquired.json(), ACQUIRED)
    lease_id = acquired.json()["lease_id"]
    inspected = call("GET", "/locks/deploy")
    assert (inspected.status_code, inspected.json()["status"]) == (200, "held")
    check(inspected.json(), HELD)
    listed = call("GET", "/locks").json()
    assert (listed["total"], listed["locks"][0]["status"]) == (1, "held")
    check(listed["locks"][0], HELD)
    renewed = call("POST", "/locks/deploy/renew", {"lease_id": lease_id, "ttl_seconds": 120})
    assert renewed.status_code == 200
    check(renewed.json(), RENEWED)
    released = call("POST", "/locks/deploy/release", {"lease_id": lease_id})
    assert (released.status_code, released.json()) == (200, None)
    free = call("GET", "/locks/deploy").json()
    assert (free["status"], free["holder_id"], free["expires_at"]) == ("free", None, None)
    assert call("GET", "/locks").json()["locks"] == []


def test_another_token_is_told_who_holds_the_lock(call, worker_token):
    call("POST", "/locks/deploy/acquire", {"ttl_seconds": 60, "metadata": "host=a"})
    held = call("POST", "/locks/deploy/acquire", {"ttl_seconds": 60}, token=worker_token)
    assert (held.status_code, held.json()["status"]) == (200, "held")
    check(held.json(), HELD)
    assert "lease_id" not in held.json()


def test_the_life_of_a_session(call):
    opened = call("POST", "/sessions", {"ttl_seconds": 60})
    assert opened.status_code == 201
    check(opened.json(), SESSION_OPENED)
    path = f"/sessions/{opened.json()['session_id']}"
    lock = {"ttl_seconds": 60, "session_id": opened.json()["session_id"], "ephemeral": True}
    assert call("POST", "/locks/deploy/acquire", lock).json()["status"] == "acquired"
    kept = call("POST", f"{path}/keepalive")
    assert kept.status_code == 200
    check(kept.json(), {"session_id": is_uuid, "expires_at": is_time})
    check(call("GET", path).json(), SESSION)
    assert call("DELETE", path).status_code == 204
    assert call("GET", "/locks/deploy").json()["status"] == "free"
    assert call("POST", f"{path}/keepalive").status_code == 410


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/locks/free/renew", {"lease_id": UNKNOWN, "ttl_seconds": 60}, 404, "lease_not_current"),
        ("POST", "/locks/free/release", {"lease_id": UNKNOWN}, 404, "lease_not_current"),
        ("POST", "/locks/deploy/renew", {"lease_id": UNKNOWN, "ttl_seconds": 60}, 400, "lease_not_current"),
        ("POST", "/locks/deploy/release", {"lease_id": UNKNOWN}, 400, "lease_not_current"),
        ("POST", "/locks/a/acquire", {"ttl_seconds": 0}, 400, "invalid_ttl"),
        ("POST", "/locks/a/acquire", {"ttl_seconds": 86_401}, 400, "invalid_ttl"),
        ("POST", "/locks/a%20b/acquire", {"ttl_seconds": 60}, 400, "invalid_lock_name"),
        ("POST", "/locks/a/acquire", {"session_id": UNKNOWN}, 404, "not_found"),
        ("POST", "/locks/a/renew", {}, 422, "invalid_input"),
        ("POST", "/locks/a/release", {"lease_id": "x"}, 422, "invalid_input"),
        ("POST", f"/sessions/{UNKNOWN}/keepalive", None, 404, "not_found"),
        ("GET", f"/sessions/{UNKNOWN}", None, 404, "not_found"),
        ("DELETE", f"/sessions/{UNKNOWN}", None, 404, "not_found"),
    ],
)
def test_errors(call, method, path, body, status, code):
    call("POST", "/locks/deploy/acquire", {"ttl_seconds": 60})
    refused = call(method, path, body)
    assert (refused.status_code, refused.json()["code"]) == (status, code)
    check(refused.json(), {"error": is_text, "details": is_text})


def test_requests_without_a_valid_token(call):
    for token, code in ((None, "authentication_required"), ("wrong", "authentication_failed")):
        for method, path in (
            ("POST", "/locks/a/acquire"),
            ("GET", "/locks/a"),
            ("GET", "/locks"),
            ("GET", "/webhooks"),
        ):
            refused = call(method, path, token=token)
            assert (refused.status_code, refused.json()["code"]) == (401, code)
