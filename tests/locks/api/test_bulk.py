"""Many locks at once over HTTP."""

import pytest

from tests.conftest import issue

pytestmark = pytest.mark.django_db


def test_claim_next_acquires_the_first_free_lock(call):
    call("POST", "/locks/issue-1/acquire")
    claimed = call("POST", "/locks/claim-next", {"names": ["issue-1", "issue-2", "issue-3"], "owner": "agent-7"})
    assert claimed.status_code == 200
    assert (claimed.json()["status"], claimed.json()["name"]) == ("acquired", "issue-2")
    assert claimed.json()["owner"] == "agent-7"


def test_claim_next_returns_a_retry_time(call):
    call("POST", "/locks/issue-1/acquire", {"ttl_seconds": 4})
    none = call("POST", "/locks/claim-next", {"names": ["issue-1"]}).json()
    assert none["status"] == "held"
    assert 0 < none["retry_after_ms"] <= 4000


def test_acquire_all_is_all_or_none(call):
    taken = call("POST", "/locks/b/acquire", {"owner": "other"}).json()
    refused = call("POST", "/locks/acquire-all", {"names": ["a", "b", "c"]}).json()
    assert refused["status"] == "held"
    assert [(blocker["name"], blocker["owner"]) for blocker in refused["blocked_by"]] == [("b", "other")]
    assert call("GET", "/locks/a").json()["status"] == "free"
    call("POST", "/locks/b/release", {"lease_id": taken["lease_id"]})
    done = call("POST", "/locks/acquire-all", {"names": ["c", "a", "b", "a"], "ttl_seconds": 90}).json()
    assert done["status"] == "acquired"
    assert [lease["name"] for lease in done["leases"]] == ["c", "a", "b"]
    assert len({lease["lease_id"] for lease in done["leases"]}) == 3


def test_acquire_all_lists_locks_in_cooldown(call):
    lease = call("POST", "/locks/a/acquire", {"lock_delay_seconds": 30}).json()
    call("POST", "/locks/a/release", {"lease_id": lease["lease_id"]})
    (blocker,) = call("POST", "/locks/acquire-all", {"names": ["a", "b"]}).json()["blocked_by"]
    assert (blocker["name"], blocker["owner"]) == ("a", None)
    assert blocker["available_at"] is not None


def test_renew_all_and_release_all_return_a_result_for_each_lease(call):
    leases = call("POST", "/locks/acquire-all", {"names": ["a", "b"]}).json()["leases"]
    mine = [{"name": lease["name"], "lease_id": lease["lease_id"]} for lease in leases]
    stale = {"name": "c", "lease_id": leases[0]["lease_id"]}
    swapped = {"name": "b", "lease_id": leases[0]["lease_id"]}
    renewed = call("POST", "/locks/renew-all", {"leases": [*mine, stale, swapped]}).json()["results"]
    assert [result["ok"] for result in renewed] == [True, True, False, False]
    assert [result["code"] for result in renewed[2:]] == ["lease_not_current", "lease_not_current"]
    released = call("POST", "/locks/release-all", {"leases": [*mine, mine[0]]}).json()["results"]
    assert [result["ok"] for result in released] == [True, True, False]


def test_renew_all_reports_each_name_outside_the_prefixes(call, space):
    token = issue(space, "ci", "locks:write", prefixes=["ci/"])
    lease = call("POST", "/locks/ci/a/acquire", token=token).json()
    leases = [{"name": name, "lease_id": lease["lease_id"]} for name in ("ci/a", "other")]
    results = call("POST", "/locks/renew-all", {"leases": leases}, token=token).json()["results"]
    assert [(result["ok"], result["code"]) for result in results] == [(True, None), (False, "forbidden")]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/locks/claim-next", {"names": []}),
        ("/locks/claim-next", {"names": ["x"] * 1001}),
        ("/locks/claim-next", {}),
        ("/locks/acquire-all", {"names": [f"n{n}" for n in range(101)]}),
        ("/locks/renew-all", {"leases": []}),
        ("/locks/renew-all", {"leases": [{"name": "a"}]}),
        ("/locks/release-all", {"leases": "a"}),
    ],
)
def test_bodies_out_of_bounds(call, path, body):
    refused = call("POST", path, body)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")


@pytest.mark.parametrize("path", ["/locks/claim-next", "/locks/acquire-all"])
def test_one_invalid_name_fails_the_request(call, path):
    refused = call("POST", path, {"names": ["fine", "not fine"]})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_lock_name")
    assert call("GET", "/locks/fine").json()["status"] == "free"


class TestList:
    def test_pages_by_name_without_gaps(self, call):
        names = [f"job-{number:02}" for number in range(7)]
        call("POST", "/locks/acquire-all", {"names": names})
        seen, cursor = [], ""
        while cursor is not None:
            page = call("GET", f"/locks?limit=3&cursor={cursor}").json()
            assert (page["total"], page["total_is_at_least"], page["prefix"]) == (7, False, "")
            seen += [lock["name"] for lock in page["locks"]]
            cursor = page["next_cursor"]
        assert seen == names

    def test_pages_by_expiry(self, call):
        for number, ttl in enumerate([50, 10, 30, 40, 20]):
            call("POST", f"/locks/job-{number}/acquire", {"ttl_seconds": ttl})
        first = call("GET", "/locks?sort=expires_at&limit=3").json()
        second = call("GET", f"/locks?sort=expires_at&limit=3&cursor={first['next_cursor']}").json()
        assert [lock["name"][-1] for lock in first["locks"] + second["locks"]] == list("14230")

    def test_a_cursor_belongs_to_its_order(self, call):
        call("POST", "/locks/acquire-all", {"names": ["a", "b"]})
        cursor = call("GET", "/locks?limit=1").json()["next_cursor"]
        assert call("GET", f"/locks?limit=1&sort=expires_at&cursor={cursor}").status_code == 422

    def test_filters(self, call):
        call("POST", "/locks/ci/a/acquire", {"owner": "x"})
        call("POST", "/locks/ci/b/acquire", {"owner": "y"})
        call("POST", "/locks/deploy/acquire", {"owner": "x"})
        lease = call("POST", "/locks/closed/acquire", {"lock_delay_seconds": 30}).json()
        call("POST", "/locks/closed/release", {"lease_id": lease["lease_id"]})

        def names(query: str) -> list[str]:
            return [lock["name"] for lock in call("GET", f"/locks?{query}").json()["locks"]]

        assert names("prefix=ci/") == ["ci/a", "ci/b"]
        assert names("owner=x") == ["ci/a", "deploy"]
        assert names("prefix=ci/&owner=x") == ["ci/a"]
        assert names("status=delayed") == ["closed"]
        assert names("status=all") == ["ci/a", "ci/b", "closed", "deploy"]
        assert names("prefix=%25") == []

    def test_has_no_lease_id_and_only_locks_within_the_prefixes(self, call, space):
        call("POST", "/locks/acquire-all", {"names": ["ci/a", "deploy"]})
        token = issue(space, "ci", "locks:read", prefixes=["ci/"])
        page = call("GET", "/locks", token=token)
        assert [lock["name"] for lock in page.json()["locks"]] == ["ci/a"]
        assert page.json()["total"] == 1
        assert "lease_id" not in page.content.decode()
