"""The time after a lease in which a lock stays closed."""

import pytest

pytestmark = pytest.mark.usefixtures("each_path")


@pytest.fixture
def closed(call) -> dict:
    lease = call("POST", "/locks/deploy/acquire", {"lock_delay_seconds": 30}).json()
    call("POST", "/locks/deploy/release", {"lease_id": lease["lease_id"]})
    return lease


@pytest.mark.usefixtures("either_terms", "closed")
def test_an_acquire_is_refused_until_it_is_over(call):
    refused = call("POST", "/locks/deploy/acquire", {"ttl_seconds": 60})
    assert (refused.status_code, refused.json()["status"]) == (409, "delayed")
    assert refused.json()["retry_after_ms"] > 0


def test_on_octostores_terms_the_lock_is_free_meanwhile(call, compatible, closed):
    lock = call("GET", "/locks/deploy").json()
    assert (lock["status"], lock["fencing_token"]) == ("free", closed["fencing_token"])


def test_on_our_own_terms_it_is_delayed(call, closed):
    lock = call("GET", "/locks/deploy").json()
    assert (lock["status"], lock["fencing_token"]) == ("delayed", closed["fencing_token"])
    assert lock["available_at"] is not None
