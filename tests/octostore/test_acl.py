"""Access lists: who may acquire a lock, in every way of acquiring it."""

import pytest

from locks.models import Event, Token
from tests.conftest import issue

pytestmark = pytest.mark.usefixtures("either_terms")

WORKER = ("locks:read", "locks:write")


@pytest.fixture
def deployer(space) -> str:
    return issue(space, "deploy-bot", *WORKER)


@pytest.fixture
def stranger(space) -> str:
    return issue(space, "stranger", *WORKER)


def acquire(call, *, token, **fields):
    return call("POST", "/locks/deploy/acquire", {"ttl_seconds": 60, **fields}, token=token)


def release(call, lease, *, token):
    assert call("POST", "/locks/deploy/release", {"lease_id": lease.json()["lease_id"]}, token=token).status_code == 200


def restrict(call, deployer, *, released=True):
    """A lock that only the deployer may acquire."""
    lease = acquire(call, token=deployer, acl={"acquire": ["user:deploy-bot"]})
    assert lease.json()["status"] == "acquired"
    if released:
        release(call, lease, token=deployer)
    return lease


def is_forbidden(response) -> bool:
    return (response.status_code, response.json()["code"]) == (403, "forbidden")


def code_of(response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def test_a_list_is_set_with_the_first_lease_and_outlives_it(call, deployer, stranger):
    restrict(call, deployer)
    assert is_forbidden(acquire(call, token=stranger))
    assert acquire(call, token=deployer).json()["status"] == "acquired"
    # Also while the lock is held: it could never get the lock.
    assert is_forbidden(acquire(call, token=stranger))
    assert call("GET", "/locks/deploy").json()["acl"] == {"acquire": ["user:deploy-bot"]}
    assert "acl" not in call("GET", "/locks/other").json()


@pytest.mark.parametrize("form", [["user:{name}"], ["{name}"], ["token:{id}"], ["{id}"], ["token:{plaintext}"]])
def test_tokens_are_listed_by_name_by_public_id_or_as_they_are(call, deployer, stranger, form):
    public_id = Token.objects.get(name="deploy-bot").public_id
    listed = [text.format(name="deploy-bot", id=public_id, plaintext=deployer) for text in form]
    release(call, acquire(call, token=deployer, acl=listed), token=deployer)
    shown = call("GET", "/locks/deploy").json()["acl"]["acquire"]
    assert shown == ["user:deploy-bot"] if "name" in form[0] else [f"token:{public_id}"]
    assert is_forbidden(acquire(call, token=stranger))
    assert acquire(call, token=deployer).json()["status"] == "acquired"


@pytest.mark.parametrize(
    "acl", [[], {"acquire": []}, ["user:nobody"], ["token:nobody"], ["user:stranger"], ["x"] * 101, [""], ["a\0b"]]
)
def test_a_list_that_cannot_be_honoured_is_refused(call, deployer, stranger, acl):
    refused = acquire(call, token=deployer, acl=acl)
    assert code_of(refused) == (400, "invalid_input")
    assert call("GET", "/locks/deploy").json()["status"] == "free"


@pytest.mark.parametrize("acl", ["user:a", {"acquire": "user:a"}, {}, [7]])
def test_a_list_of_another_type_is_a_422(call, deployer, acl):
    assert code_of(acquire(call, token=deployer, acl=acl)) == (422, "invalid_input")


def test_a_bearer_token_in_a_refused_list_is_not_repeated(call, deployer, red_space):
    foreign = issue(red_space, "theirs", *WORKER)
    refused = acquire(call, token=deployer, acl=[f"token:{foreign}"])
    assert code_of(refused) == (400, "invalid_input")
    assert foreign not in refused.content.decode()


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/locks/deploy/acquire", {"wait_seconds": 1}),
        ("/locks/claim-next", {"names": ["deploy"]}),
        ("/locks/acquire-all", {"names": ["deploy"]}),
    ],
)
def test_where_it_would_have_no_effect_it_is_refused(call, deployer, path, fields):
    refused = call("POST", path, {**fields, "acl": ["user:deploy-bot"]}, token=deployer)
    assert code_of(refused) == (400, "invalid_input")


def test_a_null_list_is_none(call, deployer, stranger):
    release(call, acquire(call, token=deployer, acl=None), token=deployer)
    assert acquire(call, token=stranger).json()["status"] == "acquired"


def test_another_list_than_the_lock_has_is_a_conflict(call, deployer, stranger):
    restrict(call, deployer)
    changed = acquire(call, token=deployer, acl=["user:deploy-bot", "user:stranger"])
    assert code_of(changed) == (409, "conflict")
    assert call("GET", "/locks/deploy").json()["status"] == "free"
    assert acquire(call, token=deployer, acl=["user:deploy-bot"]).json()["status"] == "acquired"


def test_the_retry_of_a_lost_answer_is_no_conflict(call, deployer):
    body = {"ttl_seconds": 60, "acl": ["user:deploy-bot"]}
    first, again = (
        call("POST", "/locks/deploy/acquire", body, token=deployer, **{"Idempotency-Key": "one"}).json()
        for _attempt in range(2)
    )
    assert first["status"] == "acquired"
    assert again == {**first, "expires_at": again["expires_at"], "renew_after_ms": again["renew_after_ms"]}


def test_a_holder_that_asks_again_with_a_list_is_not_ignored(call, deployer):
    session = call("POST", "/sessions", token=deployer).json()["session_id"]
    acquire(call, token=deployer, session_id=session)
    again = acquire(call, token=deployer, session_id=session, acl=["user:deploy-bot"])
    assert code_of(again) == (409, "conflict")


def test_claim_next_skips_such_a_lock(call, deployer, stranger):
    restrict(call, deployer)
    names = {"names": ["deploy", "other"]}
    assert call("POST", "/locks/claim-next", names, token=stranger).json()["name"] == "other"
    assert call("POST", "/locks/claim-next", names, token=stranger).json()["status"] == "held"
    assert call("POST", "/locks/claim-next", names, token=deployer).json()["name"] == "deploy"


def test_acquire_all_is_refused_because_of_one(call, deployer, stranger):
    restrict(call, deployer)
    names = {"names": ["deploy", "other"]}
    assert is_forbidden(call("POST", "/locks/acquire-all", names, token=stranger))
    assert call("GET", "/locks/other").json()["status"] == "free"
    assert call("POST", "/locks/acquire-all", names, token=deployer).json()["status"] == "acquired"


def test_a_request_that_would_wait_is_refused_at_once(call, deployer, stranger):
    restrict(call, deployer, released=False)
    assert is_forbidden(acquire(call, token=stranger, wait_seconds=30))


def test_the_successor_of_a_listed_token_may(call, space, deployer):
    public_id = Token.objects.get(name="deploy-bot").public_id
    release(call, acquire(call, token=deployer, acl=[f"token:{public_id}"]), token=deployer)
    successor = call("POST", "/auth/token/rotate", token=deployer).json()["token"]
    assert acquire(call, token=successor).json()["status"] == "acquired"


def test_a_public_id_does_not_list_a_later_token_of_the_same_name(call, space, deployer):
    public_id = Token.objects.get(name="deploy-bot").public_id
    release(call, acquire(call, token=deployer, acl=[f"token:{public_id}"]), token=deployer)
    manager = issue(space, "manager", "tokens:manage")
    assert call("DELETE", f"/tokens/{public_id}", token=manager).status_code == 204
    assert is_forbidden(acquire(call, token=issue(space, "deploy-bot", *WORKER)))


class TestReplacing:
    def put(self, call, acl, *, token):
        return call("PUT", "/locks/deploy/acl", {"acl": acl}, token=token)

    def test_the_holder_may(self, call, deployer, stranger):
        lease = restrict(call, deployer, released=False)
        replaced = self.put(call, {"acquire": ["user:stranger"]}, token=deployer)
        assert (replaced.status_code, replaced.json()) == (
            200,
            {"name": "deploy", "acl": {"acquire": ["user:stranger"]}},
        )
        # The holder keeps its lease.
        renewed = call("POST", "/locks/deploy/renew", {"lease_id": lease.json()["lease_id"]}, token=deployer)
        assert renewed.status_code == 200
        release(call, lease, token=deployer)
        assert is_forbidden(acquire(call, token=deployer))
        assert acquire(call, token=stranger).json()["status"] == "acquired"

    def test_so_may_an_operator_and_remove_it(self, call, deployer, stranger, operator_token):
        restrict(call, deployer)
        assert self.put(call, None, token=operator_token).json() == {"name": "deploy", "acl": None}
        assert acquire(call, token=stranger).json()["status"] == "acquired"

    def test_others_may_not(self, call, deployer, stranger, space):
        lease = restrict(call, deployer, released=False)
        assert is_forbidden(self.put(call, None, token=stranger))
        assert is_forbidden(self.put(call, None, token=issue(space, "reader", "locks:read")))
        release(call, lease, token=deployer)
        assert is_forbidden(self.put(call, None, token=deployer))
        assert call("GET", "/locks/deploy").json()["acl"] == {"acquire": ["user:deploy-bot"]}

    def test_a_name_that_was_never_used_is_not_found(self, call, operator_token, red_space, deployer):
        assert code_of(self.put(call, None, token=operator_token)) == (404, "not_found")
        acquire(call, token=deployer)
        assert code_of(self.put(call, None, token=issue(red_space, "theirs", "locks:force"))) == (404, "not_found")

    @pytest.mark.parametrize(("body", "status"), [({}, 422), ({"acl": []}, 400), ({"acl": ["user:nobody"]}, 400)])
    def test_a_list_that_cannot_be_honoured_is_refused(self, call, deployer, body, status):
        acquire(call, token=deployer)
        refused = call("PUT", "/locks/deploy/acl", body, token=deployer)
        assert code_of(refused) == (status, "invalid_input")

    def test_every_change_is_in_the_history(self, call, deployer, stranger):
        restrict(call, deployer, released=False)
        for _twice in range(2):
            self.put(call, ["user:stranger"], token=deployer)
        granted, changed = Event.objects.filter(lock_name="deploy").order_by("id")
        assert (granted.kind, granted.detail) == ("acquired", {"acl": ["user:deploy-bot"]})
        assert (changed.kind, changed.actor_name) == ("acl_changed", "deploy-bot")
        assert changed.detail == {"acl": {"from": ["user:deploy-bot"], "to": ["user:stranger"]}}
