"""Freezes over HTTP: works, is refused, finds another state."""

from datetime import timedelta

import pytest
from django.utils import timezone

from locks.models import Event, Freeze
from tests.conftest import issue

FREEZE = {"prefix": "deploy/", "reason": "database migration", "duration_seconds": 7200}


@pytest.mark.django_db
class TestFreeze:
    def test_a_freeze_is_listed_until_it_is_lifted_and_both_are_in_the_history(self, call, space):
        frozen = call("POST", "/freezes", FREEZE)
        assert frozen.status_code == 201
        body = frozen.json()
        assert (body["prefix"], body["reason"], body["created_by"]) == ("deploy/", "database migration", "operator")
        assert call("GET", "/freezes").json() == {"freezes": [body]}
        assert call("DELETE", f"/freezes/{body['id']}").status_code == 204
        assert call("GET", "/freezes").json() == {"freezes": []}
        events = Event.objects.filter(kind__in=["frozen", "unfrozen"]).order_by("id")
        assert [(event.kind, event.actor_kind, event.actor_name) for event in events] == [
            ("frozen", "token", "operator"), ("unfrozen", "token", "operator"),
        ]  # fmt: skip

    def test_an_end_can_be_given_instead_of_a_duration(self, call):
        until = timezone.now() + timedelta(hours=3)
        frozen = call("POST", "/freezes", {"reason": "x", "until": until.isoformat()}).json()
        assert frozen["prefix"] == ""
        assert abs(Freeze.objects.get().until - until) < timedelta(seconds=5)

    @pytest.mark.parametrize(
        ("change", "status"),
        [
            ({"duration_seconds": None}, 400),
            ({"until": "2999-01-01T00:00:00Z"}, 400),
            ({"duration_seconds": None, "until": "2020-01-01T00:00:00Z"}, 400),
            ({"duration_seconds": None, "until": "2999-01-01T00:00:00Z"}, 400),
            ({"duration_seconds": None, "until": "2999-01-01T00:00:00"}, 422),
            ({"duration_seconds": None, "until": "0001-01-01T00:00:00+14:00"}, 400),
            ({"duration_seconds": None, "until": "9999-12-31T23:59:59-14:00"}, 400),
            ({"duration_seconds": 0}, 422),
            ({"duration_seconds": 30 * 86_400 + 1}, 422),
            ({"reason": "  "}, 422),
            ({"prefix": "a\0b"}, 422),
            ({"prefix": "path:../x"}, 422),
        ],
    )
    def test_what_is_not_a_freeze_is_refused(self, call, change, status):
        body = {key: value for key, value in {**FREEZE, **change}.items() if value is not None}
        assert call("POST", "/freezes", body).status_code == status
        assert not Freeze.objects.exists()

    def test_a_token_with_prefixes_freezes_and_lifts_only_within_them(self, call, space):
        token = issue(space, "ci", "locks:read", "locks:force", prefixes=["ci/"])
        assert call("POST", "/freezes", {**FREEZE, "prefix": "ci/nightly"}, token=token).status_code == 201
        assert call("POST", "/freezes", {**FREEZE, "prefix": "c"}, token=token).status_code == 403
        others = {prefix: call("POST", "/freezes", {**FREEZE, "prefix": prefix}).json() for prefix in ("", "deploy/")}
        seen = [freeze["prefix"] for freeze in call("GET", "/freezes", token=token).json()["freezes"]]
        assert sorted(seen) == ["", "ci/nightly"]
        assert call("DELETE", f"/freezes/{others['']['id']}", token=token).status_code == 404

    def test_a_worker_cannot_freeze_and_another_team_finds_nothing(self, call, worker_token, red_space):
        frozen = call("POST", "/freezes", FREEZE).json()
        assert call("POST", "/freezes", FREEZE, token=worker_token).status_code == 403
        assert call("GET", "/freezes", token=worker_token).json()["freezes"] == [frozen]
        other = issue(red_space, "other", "locks:read", "locks:force")
        assert call("GET", "/freezes", token=other).json()["freezes"] == []
        assert call("DELETE", f"/freezes/{frozen['id']}", token=other).status_code == 404

    def test_what_is_over_cannot_be_lifted(self, call):
        frozen = call("POST", "/freezes", FREEZE).json()
        call("DELETE", f"/freezes/{frozen['id']}")
        assert call("DELETE", f"/freezes/{frozen['id']}").status_code == 404


@pytest.mark.usefixtures("each_path")
class TestClaims:
    def test_a_claim_is_delayed_with_the_reason(self, call):
        frozen = call("POST", "/freezes", FREEZE).json()
        refused = call("POST", "/locks/deploy/main/acquire")
        assert refused.status_code == 409
        assert refused.json() == {
            "status": "delayed", "name": "deploy/main", "available_at": frozen["until"], "lock_delay_seconds": 0,
            "retry_after_ms": 30_000, "frozen": True, "frozen_prefix": "deploy/", "reason": "database migration",
        }  # fmt: skip
        assert call("POST", "/locks/deploy/acquire").json()["status"] == "acquired"

    def test_inspect_says_so_and_holders_go_on(self, call):
        lease = call("POST", "/locks/deploy/main/acquire").json()
        call("POST", "/freezes", FREEZE)
        body = {"lease_id": lease["lease_id"]}
        assert call("POST", "/locks/deploy/main/renew", body).status_code == 200
        held = call("GET", "/locks/deploy/main").json()
        assert (held["status"], held["frozen"], held["reason"]) == ("held", True, "database migration")
        assert call("POST", "/locks/deploy/main/release", body).status_code == 200
        free = call("GET", "/locks/deploy/main").json()
        assert (free["status"], free["frozen_prefix"]) == ("delayed", "deploy/")
        assert "frozen" not in call("GET", "/locks/other").json()

    def test_many_names(self, call):
        call("POST", "/freezes", FREEZE)
        together = call("POST", "/locks/acquire-all", {"names": ["a", "deploy/b", "deploy/a"]})
        assert (together.status_code, together.json()["status"]) == (409, "delayed")
        assert together.json()["name"] in ("deploy/a", "deploy/b")
        assert together.json()["reason"] == "database migration"
        assert call("POST", "/locks/claim-next", {"names": ["deploy/a", "a"]}).json()["name"] == "a"
        none = call("POST", "/locks/claim-next", {"names": ["deploy/a", "a"]})
        assert (none.status_code, none.json()["status"], none.json()["frozen"]) == (409, "delayed", True)
        # The other name may be free before the freeze ends.
        assert none.json()["retry_after_ms"] <= 60_000
