"""Tokens over HTTP: who am I, issue, list, rotate, revoke."""

import hashlib
from datetime import timedelta

import pytest

from locks.actions import tokens
from locks.actions.audit import Actor
from locks.api.usage import usage
from locks.models import Event, Space, Token
from tests.conftest import issue

pytestmark = pytest.mark.django_db


@pytest.fixture
def managing(space: Space) -> str:
    return issue(space, "manager", "tokens:manage", "locks:read", "locks:write")


def test_whoami(call, worker_token):
    body = call("GET", "/whoami", token=worker_token).json()
    assert (body["team"], body["space"], body["scopes"]) == ("blue", "main", ["locks:read", "locks:write"])
    assert body["token"]["name"] == "worker"
    assert worker_token not in str(body)


def test_an_issued_token_works_and_only_its_digest_is_kept(call, managing):
    issued = call("POST", "/tokens", {"name": "ci", "preset": "worker"}, token=managing)
    assert issued.status_code == 201
    assert issued["Cache-Control"] == "no-store"
    plaintext = issued.json()["token"]
    assert call("POST", "/locks/a/acquire", token=plaintext).json()["owner"] == "ci"
    kept = Token.objects.get(name="ci")
    assert bytes(kept.digest) == hashlib.sha256(plaintext.encode()).digest()
    assert kept.expires_at is not None
    event = Event.objects.get(kind="token_issued", detail__name="ci")
    assert (event.actor_kind, event.actor_name) == ("token", "manager")
    assert plaintext not in str(event.detail)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"preset": "worker"},
        {"name": "ci", "preset": "king"},
        {"name": "ci", "scopes": []},
        {"name": "ci", "scopes": ["locks:eat"]},
        {"name": "", "preset": "worker"},
        {"name": "a\0b", "preset": "worker"},
        {"name": "ci", "preset": "worker", "expires_in_days": 0},
        {"name": "ci", "preset": "worker", "prefixes": [""]},
        {"name": "ci", "preset": "worker", "prefixes": ["a\0"]},
    ],
)
def test_what_cannot_be_issued(call, managing, body):
    refused = call("POST", "/tokens", body, token=managing)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")
    assert Token.objects.count() == 2


def test_a_name_is_used_once(call, managing):
    call("POST", "/tokens", {"name": "ci", "preset": "worker"}, token=managing)
    refused = call("POST", "/tokens", {"name": "ci", "preset": "worker"}, token=managing)
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")


def test_a_token_bound_to_prefixes_issues_no_freer_one(call, space):
    bound = issue(space, "bound", "tokens:manage", prefixes=["ci/"])
    for prefixes in ([], ["deploy/"], ["ci/", "x"]):
        body = {"name": "new", "preset": "worker", "prefixes": prefixes}
        assert call("POST", "/tokens", body, token=bound).status_code == 403
    fine = {"name": "new", "preset": "worker", "prefixes": ["ci/build/"]}
    assert call("POST", "/tokens", fine, token=bound).status_code == 201


def test_the_list_has_no_secrets_and_no_other_space(call, managing, red_space):
    issue(red_space, "stranger", "locks:read")
    listed = call("GET", "/tokens", token=managing)
    assert {token["name"] for token in listed.json()["tokens"]} == {"manager", "operator"}
    assert "digest" not in listed.content.decode()


def test_revoking_stops_the_very_next_request_and_happens_once(call, managing, worker_token):
    public_id = worker_token.split("_")[1]
    assert call("GET", "/locks/a", token=worker_token).status_code == 200
    assert call("DELETE", f"/tokens/{public_id}", token=managing).status_code == 204
    assert call("GET", "/locks/a", token=worker_token).status_code == 401
    assert call("DELETE", f"/tokens/{public_id}", token=managing).status_code == 404
    assert Event.objects.filter(kind="token_revoked").count() == 1
    names = [token["name"] for token in call("GET", "/tokens?revoked=true", token=managing).json()["tokens"]]
    assert "worker" in names


def test_another_spaces_token_cannot_be_revoked(call, managing, red_space):
    stranger = issue(red_space, "stranger", "locks:read")
    assert call("DELETE", f"/tokens/{stranger.split('_')[1]}", token=managing).status_code == 404
    assert call("GET", "/locks/a", token=stranger).status_code == 200


def test_rotating_with_an_overlap_keeps_both_for_a_while(call, worker_token):
    rotated = call("POST", "/auth/token/rotate", {"overlap_seconds": 60}, token=worker_token)
    assert rotated.status_code == 200
    new = rotated.json()["token"]
    assert call("GET", "/whoami", token=new).json()["token"]["name"] == "worker"
    assert call("GET", "/whoami", token=worker_token).status_code == 200
    again = call("POST", "/auth/token/rotate", token=worker_token)
    assert (again.status_code, again.json()["code"]) == (409, "conflict")


def test_rotating_without_overlap_ends_the_old_one_at_once(call, worker_token):
    new = call("POST", "/auth/token/rotate", token=worker_token).json()["token"]
    assert call("GET", "/whoami", token=worker_token).status_code == 401
    assert call("GET", "/whoami", token=new).status_code == 200


def test_a_lease_survives_the_rotation_of_its_token(call, worker_token):
    lease = call("POST", "/locks/a/acquire", token=worker_token).json()
    new = call("POST", "/auth/token/rotate", token=worker_token).json()["token"]
    assert call("POST", "/locks/a/renew", {"lease_id": lease["lease_id"]}, token=new).status_code == 200


def test_the_last_use_is_noted_without_holding_up_the_request(call, worker_token):
    call("GET", "/locks/a", token=worker_token, **{"User-Agent": "octo/1.0"})
    assert Token.objects.get(name="worker").last_used_at is None
    usage.flush()
    used = Token.objects.get(name="worker")
    assert (used.last_used_address, used.last_used_agent) == ("127.0.0.1", "octo/1.0")
    call("GET", "/locks/a", token=worker_token, **{"User-Agent": "octo/2.0"})
    usage.flush()
    assert Token.objects.get(name="worker").last_used_agent == "octo/1.0"


def test_a_token_bound_to_prefixes_manages_only_tokens_within_them(call, space):
    bound = issue(space, "bound", "tokens:manage", prefixes=["blue-"])
    within = issue(space, "within", "locks:read", prefixes=["blue-ci/"])
    outside = issue(space, "outside", "locks:read", prefixes=["red-"])
    listed = {token["name"] for token in call("GET", "/tokens", token=bound).json()["tokens"]}
    assert listed == {"bound", "within"}
    assert call("DELETE", f"/tokens/{outside.split('_')[1]}", token=bound).status_code == 404
    assert call("DELETE", f"/tokens/{within.split('_')[1]}", token=bound).status_code == 204


@pytest.mark.parametrize("public_id", ["a%00b", "x" * 13, "%F0%9F%94%92", ".."])
def test_what_is_no_public_id_is_not_found(call, managing, public_id):
    assert call("DELETE", f"/tokens/{public_id}", token=managing).status_code == 404


def test_a_token_that_was_revoked_meanwhile_has_no_successor(space, worker_token):
    held = Token.objects.get(name="worker")
    Token.objects.filter(pk=held.pk).update(revoked_at="2020-01-01T00:00:00Z")
    with pytest.raises(tokens.NotRotatable):
        tokens.rotate(actor=Actor.of_token(held), token=held, overlap=timedelta(0))
    assert Token.objects.filter(revoked_at__isnull=True, name="worker").count() == 0
