"""Namespaces over HTTP: canonical names at every door, `blocked_by`, and the check."""

from urllib.parse import quote

import pytest

from locks.models import Space
from locks.models.space import LockPolicy
from tests.conftest import issue


@pytest.fixture
def policy(space):
    def set_policy(policy: str) -> None:
        Space.objects.filter(pk=space.pk).update(lock_policy=policy)

    return set_policy


def acquire(call, name, **body):
    return call("POST", f"/locks/{quote(name, safe=':/%')}/acquire", body).json()


@pytest.mark.usefixtures("each_path")
class TestAcquire:
    def test_held_lists_every_lease_that_blocks(self, call):
        first = acquire(call, "path:src/a.rs", owner="agent-1", metadata="m")
        acquire(call, "path:src/b.rs", owner="agent-2")
        acquire(call, "path:docs", owner="agent-3")
        held = acquire(call, "path:src")
        assert (held["status"], held["name"]) == ("held", "path:src")
        assert [blocker["name"] for blocker in held["blocked_by"]] == ["path:src/a.rs", "path:src/b.rs"]
        for field in ("owner", "metadata", "fencing_token", "acquired_at", "expires_at"):
            assert held[field] == held["blocked_by"][0][field] == first[field]

    def test_the_same_name_blocks_too(self, call):
        first = acquire(call, "issue:1", owner="agent-1")
        held = acquire(call, "issue:1")
        (blocker,) = held["blocked_by"]
        assert (blocker["name"], blocker["owner"], blocker["fencing_token"]) == (
            "issue:1", "agent-1", first["fencing_token"],
        )  # fmt: skip

    def test_of_a_lease_outside_its_prefixes_a_token_learns_only_how_long_it_lasts(self, call, space):
        bound = issue(space, "bound", "locks:read", "locks:write", prefixes=["path:src/own"])
        names = {"names": ["path:src/own"]}
        for held_name, owner, metadata in (("path:src", "", None), ("path:src/own/a", "agent-1", "m")):
            lease = acquire(call, held_name, owner="agent-1", metadata="m")
            held = call("POST", "/locks/path:src%2Fown/acquire", {}, token=bound).json()
            assert (held["status"], held["owner"], held["metadata"]) == ("held", owner, metadata)
            all_held = call("POST", "/locks/acquire-all", names, token=bound).json()
            checked = call("POST", "/locks/check", names, token=bound).json()
            for blockers in (held["blocked_by"], all_held["blocked_by"], checked["conflicts"][0]["blocked_by"]):
                (blocker,) = blockers
                assert (blocker["name"], blocker["owner"], blocker["metadata"]) == (held_name, owner, metadata)
                assert blocker["expires_at"] == lease["expires_at"]
            call("POST", f"/locks/{quote(held_name)}/release", {"lease_id": lease["lease_id"]})

    def test_a_plain_name_has_no_such_list(self, call):
        acquire(call, "deploy")
        assert "blocked_by" not in acquire(call, "deploy")

    def test_a_retry_with_its_key_gets_its_lease(self, call):
        first = call("POST", "/locks/path:src/acquire", {}, **{"Idempotency-Key": "k"}).json()
        again = call("POST", "/locks/path:.%2Fsrc/acquire", {}, **{"Idempotency-Key": "k"}).json()
        assert again["lease_id"] == first["lease_id"]

    @pytest.mark.parametrize(
        "name", ["path:src", "path:./src", "path:/src", "path:src/", "path:.//src/./", "path:%2Fsrc", "path:src%2F"]
    )
    def test_all_forms_of_a_path_are_one_lock(self, call, name):
        lease = acquire(call, name)
        assert (lease["status"], lease["name"]) == ("acquired", "path:src")
        assert call("GET", f"/locks/{name}").json()["status"] == "held"
        renewed = call("POST", f"/locks/{name}/renew", {"lease_id": lease["lease_id"]})
        assert renewed.status_code == 200
        assert call("POST", f"/locks/{name}/release", {"lease_id": lease["lease_id"]}).status_code == 200

    @pytest.mark.parametrize("name", ["path:", "path:/", "path:.", "path:./", "path:.%2F."])
    def test_the_whole_tree(self, call, name):
        assert acquire(call, name)["name"] == "path:"
        assert acquire(call, "path:any/file")["status"] == "held"

    @pytest.mark.parametrize("name", ["path:..", "path:a/..", "path:../b", "path:a%5Cb", "path:a%00b", "issue:a//b"])
    def test_what_is_no_path_is_refused(self, call, name):
        answer = call("POST", f"/locks/{name}/acquire", {})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_lock_name")

    def test_other_names_are_as_they_are(self, call):
        assert acquire(call, "branch:./main")["name"] == "branch:./main"
        assert acquire(call, "issue:./1")["name"] == "issue:./1"

    def test_a_name_of_256_bytes(self, call):
        longest = "path:" + "ä" * 125 + "b"
        assert acquire(call, longest)["name"] == longest
        assert acquire(call, f"{longest}b")["code"] == "invalid_lock_name"
        assert acquire(call, "path:./" + longest.removeprefix("path:"))["status"] == "held"


@pytest.mark.django_db
class TestManyNames:
    def test_renew_all_and_release_all_take_all_forms_of_a_path(self, call):
        lease = acquire(call, "path:src")
        body = {"leases": [{"name": "path:./src/", "lease_id": lease["lease_id"]}]}
        (renewed,) = call("POST", "/locks/renew-all", body).json()["results"]
        assert (renewed["ok"], renewed["name"]) == (True, "path:src")
        assert call("POST", "/locks/release-all", body).json()["results"][0]["ok"]

    def test_acquire_all_is_blocked_by_names_that_overlap(self, call):
        acquire(call, "path:src", owner="agent-1")
        held = call("POST", "/locks/acquire-all", {"names": ["deploy", "path:src/a.rs"]}).json()
        assert held["status"] == "held"
        assert [(blocker["name"], blocker["owner"]) for blocker in held["blocked_by"]] == [("path:src", "agent-1")]
        assert call("GET", "/locks/deploy").json()["status"] == "free"

    def test_acquire_all_acquires_names_that_do_not_overlap(self, call):
        answer = call("POST", "/locks/acquire-all", {"names": ["path:a/./b", "path:c", "issue:1", "deploy"]}).json()
        assert [lease["name"] for lease in answer["leases"]] == ["path:a/b", "path:c", "issue:1", "deploy"]
        assert acquire(call, "repo:x")["status"] == "held"

    @pytest.mark.parametrize("names", [["path:src", "path:src/a"], ["repo:a", "issue:1"], ["repo:a", "repo:b"]])
    def test_acquire_all_refuses_names_that_overlap_with_each_other(self, call, names):
        answer = call("POST", "/locks/acquire-all", {"names": names})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")

    def test_claim_next_passes_over_names_that_overlap(self, call):
        acquire(call, "path:src")
        answer = call("POST", "/locks/claim-next", {"names": ["path:src/a", "path:", "path:docs/"]}).json()
        assert (answer["status"], answer["name"]) == ("acquired", "path:docs")
        assert call("POST", "/locks/claim-next", {"names": ["path:src/a", "repo:x"]}).json()["status"] == "held"

    def test_claim_next_acquires_the_next_issue(self, call):
        names = ["issue:1", "issue:2"]
        assert [call("POST", "/locks/claim-next", {"names": names}).json().get("name") for _ in range(3)] == [
            *names,
            None,
        ]


@pytest.mark.django_db
class TestPrefixes:
    def test_the_list_takes_all_forms_of_a_path(self, call):
        for name in ("path:src/a", "path:src/b", "path:src-old"):
            acquire(call, name)
        listed = call("GET", "/locks?prefix=path:./src/").json()
        assert (listed["prefix"], [lock["name"] for lock in listed["locks"]]) == (
            "path:src/", ["path:src/a", "path:src/b"],
        )  # fmt: skip
        assert call("GET", "/locks?prefix=path:../src/").status_code == 422

    def test_the_history_takes_all_forms_of_a_path(self, call):
        acquire(call, "path:src")
        for path in ("/locks/path:.%2Fsrc%2F/history", "/events?name=path:src/", "/events?prefix=path:./s"):
            events = call("GET", path).json()["events"]
            assert [event["lock_name"] for event in events] == ["path:src"]

    def test_a_token_is_limited_to_the_canonical_prefix(self, call, space):
        manager = issue(space, "manager", "tokens:manage", "locks:write")
        body = {"name": "src-only", "preset": "worker", "prefixes": ["path:./src//"]}
        token = call("POST", "/tokens", body, token=manager).json()["token"]
        whoami = call("GET", "/whoami", token=token).json()
        assert whoami["token"]["prefixes"] == ["path:src/"]
        assert call("POST", "/locks/path:.%2Fsrc%2Fa/acquire", {}, token=token).json()["status"] == "acquired"
        assert call("POST", "/locks/path:src%2F..%2Fb/acquire", {}, token=token).status_code == 400
        assert call("POST", "/locks/path:src-old/acquire", {}, token=token).status_code == 403
        escaping = {**body, "name": "other", "prefixes": ["path:src/../"]}
        assert call("POST", "/tokens", escaping, token=manager).status_code == 422


@pytest.mark.django_db
class TestCheck:
    def check(self, call, *names, **body):
        return call("POST", "/locks/check", {"names": list(names), **body}).json()

    def test_nothing_overlaps(self, call):
        acquire(call, "path:docs")
        assert self.check(call, "path:src/a.rs", "issue:1") == {
            "decision": "clear", "policy": "warn", "conflicts": [], "missing": ["path:src/a.rs", "issue:1"],
        }  # fmt: skip

    @pytest.mark.parametrize(("policy_name", "decision"), [("off", "clear"), ("warn", "warn"), ("require", "block")])
    def test_a_lease_of_another_overlaps(self, call, policy, policy_name, decision):
        policy(policy_name)
        lease = acquire(call, "path:src", owner="agent-1")
        checked = self.check(call, "path:./src/a.rs", "deploy")
        assert (checked["decision"], checked["policy"]) == (decision, policy_name)
        ((conflict),) = checked["conflicts"]
        assert conflict["name"] == "path:src/a.rs"
        ((blocker),) = conflict["blocked_by"]
        assert (blocker["name"], blocker["owner"], blocker["fencing_token"]) == (
            "path:src", "agent-1", lease["fencing_token"],
        )  # fmt: skip
        assert "lease_id" not in blocker

    @pytest.mark.parametrize("policy_name", LockPolicy.values)
    @pytest.mark.parametrize("held", ["path:src/a.rs", "path:src", "path:", "repo:migration"])
    def test_own_leases_cover_the_names(self, call, policy, policy_name, held):
        policy(policy_name)
        lease = acquire(call, held)
        checked = self.check(call, "path:src/a.rs", lease_ids=[lease["lease_id"]])
        assert (checked["decision"], checked["conflicts"], checked["missing"]) == ("clear", [], [])

    def test_the_leases_of_a_session_cover_the_names(self, call, policy):
        policy("require")
        session_id = call("POST", "/sessions", {}).json()["session_id"]
        acquire(call, "path:src", session_id=session_id)
        assert self.check(call, "path:src/a.rs", session_id=session_id)["decision"] == "clear"
        assert self.check(call, "path:src/a.rs")["decision"] == "block"

    def test_a_descendant_does_not_cover(self, call, policy):
        policy("require")
        lease = acquire(call, "path:src/a.rs")
        checked = self.check(call, "path:src", "path:src/a.rs", lease_ids=[lease["lease_id"]])
        assert (checked["decision"], checked["conflicts"], checked["missing"]) == ("block", [], ["path:src"])

    def test_a_plain_name_is_checked_too(self, call, policy):
        policy("require")
        lease = acquire(call, "deploy")
        assert self.check(call, "deploy")["conflicts"][0]["blocked_by"][0]["name"] == "deploy"
        assert self.check(call, "deploy", lease_ids=[lease["lease_id"]])["decision"] == "clear"
        assert self.check(call, "deploy/a", lease_ids=[lease["lease_id"]])["decision"] == "block"

    def test_it_changes_nothing(self, call):
        acquire(call, "path:src")
        before = call("GET", "/locks?status=all").json()["locks"]
        self.check(call, "path:src/a.rs", "issue:9")
        assert call("GET", "/locks?status=all").json()["locks"] == before

    @pytest.mark.parametrize(
        ("body", "status"),
        [({}, 422), ({"names": []}, 422), ({"names": ["a"] * 1001}, 422), ({"names": ["path:.."]}, 400),
         ({"names": ["a"], "lease_ids": ["x"]}, 422),
         ({"names": ["a"], "session_id": "00000000-0000-4000-8000-000000000000"}, 404)],
    )  # fmt: skip
    def test_is_refused(self, call, body, status):
        assert call("POST", "/locks/check", body).status_code == status

    def test_a_name_outside_the_prefixes_is_refused(self, call, space):
        token = issue(space, "reader", "locks:read", prefixes=["path:src/"])
        assert call("POST", "/locks/check", {"names": ["path:docs"]}, token=token).status_code == 403

    def test_a_lock_can_be_named_check(self, call):
        assert acquire(call, "check")["status"] == "acquired"
        assert call("GET", "/locks/check").json()["status"] == "held"
