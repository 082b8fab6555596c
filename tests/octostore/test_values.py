"""Names, limits and field types."""

from uuid import UUID

import pytest

pytestmark = pytest.mark.usefixtures("either_terms")


@pytest.mark.parametrize(
    "name", ["deploy%2Frelease", "deploy%2Fwatch", "deploy%2Fhistory", "deploy%2Facquire", "watch"]
)
def test_a_name_may_end_in_a_verb(call, name):
    lease = call("POST", f"/locks/{name}/acquire", {"ttl_seconds": 60}).json()
    assert (lease["status"], lease["name"]) == ("acquired", name.replace("%2F", "/"))
    assert call("GET", f"/locks/{name}").json()["status"] == "held"
    assert call("POST", f"/locks/{name}/renew", {"lease_id": lease["lease_id"]}).status_code == 200
    assert call("POST", f"/locks/{name}/release", {"lease_id": lease["lease_id"]}).content == b"null"
    assert call("GET", f"/locks/{name}").json()["status"] == "free"


@pytest.mark.parametrize("path", ["/locks/deploy/release/acquire", "/locks/a/watch/renew"])
def test_the_ambiguous_form_of_such_a_name_is_refused(call, path):
    refused = call("POST", path, {"lease_id": "3f8e4a4c-6b5c-4ca8-9a8f-0f6ea4f4d9a5"})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_lock_name")
    assert "%2F" in refused.json()["details"]


def test_holder_ids_are_uuids_that_tell_holders_apart(call):
    session = call("POST", "/sessions").json()["session_id"]
    for name, fields in (("a", {}), ("b", {}), ("c", {"session_id": session})):
        call("POST", f"/locks/{name}/acquire", fields)
    a, b, c = (call("GET", f"/locks/{name}").json()["holder_id"] for name in "abc")
    assert a == b != c
    assert {UUID(holder_id).version for holder_id in (a, c)} == {8}
    assert [lock["holder_id"] for lock in call("GET", "/locks").json()["locks"]] == [a, b, c]


def test_the_fencing_token_of_a_free_lock_is_the_last_one(call):
    assert call("GET", "/locks/a").json()["fencing_token"] == 0
    lease = call("POST", "/locks/a/acquire").json()
    call("POST", "/locks/a/release", {"lease_id": lease["lease_id"]})
    assert call("GET", "/locks/a").json()["fencing_token"] == lease["fencing_token"]


@pytest.mark.parametrize(
    "fields",
    [{"metadata": "x" * 1025}, {"lock_delay_seconds": 61}, {"lock_delay_seconds": -1}, {"ephemeral": True}],
    ids=str,
)
def test_a_value_out_of_its_bounds_is_a_400(call, fields):
    refused = call("POST", "/locks/a/acquire", {"ttl_seconds": 60, **fields})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")
    assert call("GET", "/locks/a").json()["status"] == "free"


@pytest.mark.parametrize(("asked", "given"), [(1, 10), (60, 60), (3600, 300)])
def test_the_ttl_of_a_session_is_clamped(call, asked, given):
    opened = call("POST", "/sessions", {"ttl_seconds": asked})
    assert (opened.status_code, opened.json()["ttl_seconds"]) == (201, given)
