"""Tokens over HTTP: who am I, issue, list, look at one, rotate, revoke."""

import hashlib
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from locks.api.usage_flusher import usage_flusher
from locks.dashboard.tokens.queries import find_token
from locks.models import Event, Lock, Space, Token
from locks.services import teams, tokens
from locks.services.audit import Actor
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
        {"name": "ci", "preset": "worker", "prefixes": ["two words"]},
        {"name": "\u202elive", "preset": "worker"},
        {"name": "\u200b", "preset": "worker"},
    ],
)
def test_invalid_tokens_are_not_issued(call, managing, body):
    refused = call("POST", "/tokens", body, token=managing)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")
    assert Token.objects.count() == 2


def test_duplicate_scopes_and_prefixes_are_stored_once(call, managing):
    body = {"name": "ci", "scopes": ["locks:read", "locks:read"], "prefixes": ["ci/", "ci/"]}
    assert call("POST", "/tokens", body, token=managing).status_code == 201
    token = Token.objects.get(name="ci")
    assert (token.scopes, token.prefixes) == (["locks:read"], ["ci/"])


def test_the_list_has_pages(call, space, managing):
    for number in range(4):
        issue(space, f"ci-{number}", "locks:read")
    first = call("GET", "/tokens?limit=4", token=managing).json()
    second = call("GET", f"/tokens?limit=4&cursor={first['next_cursor']}", token=managing).json()
    assert [token["name"] for token in first["tokens"]] == ["ci-3", "ci-2", "ci-1", "ci-0"]
    assert "manager" in [token["name"] for token in second["tokens"]]
    assert second["next_cursor"] is None


@pytest.mark.parametrize(
    "query", ["cursor=x", "cursor=-1", "cursor=" + "9" * 19, "limit=0", "limit=1001", "revoked=no"]
)
def test_invalid_query_parameters_of_the_list_are_rejected(call, managing, query):
    assert call("GET", f"/tokens?{query}", token=managing).status_code == 422


def test_a_name_is_used_once(call, managing):
    call("POST", "/tokens", {"name": "ci", "preset": "worker"}, token=managing)
    refused = call("POST", "/tokens", {"name": "ci", "preset": "worker"}, token=managing)
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")


def test_a_token_with_prefixes_issues_only_tokens_within_them(call, space):
    bound = issue(space, "bound", "tokens:manage", prefixes=["ci/"])
    for prefixes in ([], ["deploy/"], ["ci/", "x"]):
        body = {"name": "new", "preset": "worker", "prefixes": prefixes}
        assert call("POST", "/tokens", body, token=bound).status_code == 403
    fine = {"name": "new", "preset": "worker", "prefixes": ["ci/build/"]}
    assert call("POST", "/tokens", fine, token=bound).status_code == 201


def test_the_list_has_no_secrets_and_no_other_space(call, managing, red_space):
    issue(red_space, "other_token", "locks:read")
    listed = call("GET", "/tokens", token=managing)
    assert {token["name"] for token in listed.json()["tokens"]} == {"manager", "operator"}
    assert "digest" not in listed.content.decode()


def test_each_token_has_its_creator_last_use_and_number_of_leases(call, managing, space, alice):
    _, theirs = tokens.issue(
        actor=Actor.of_user(alice), space=space, name="ci", scopes=["locks:read"], created_by=alice,
        expires_at=timezone.now() + timedelta(days=3),
    )  # fmt: skip
    for name in ("a", "b"):
        call("POST", f"/locks/{name}/acquire", token=managing, **{"User-Agent": "octo/1.0"})
    usage_flusher.flush()
    listed = {token["name"]: token for token in call("GET", "/tokens", token=managing).json()["tokens"]}
    own, other = listed["manager"], listed["ci"]
    assert (own["created_by"], own["live_leases"]) == (None, 2)
    assert (own["last_used_address"], own["last_used_agent"]) == ("127.0.0.1", "octo/1.0")
    assert own["last_used_at"]
    assert (other["created_by"], other["live_leases"], other["last_used_at"]) == ("alice", 0, None)
    assert (other["last_used_address"], other["last_used_agent"], other["superseded_at"]) == (None, None, None)
    assert other["expires_at"].endswith("Z")
    assert call("GET", f"/tokens/{theirs.public_id}", token=managing).json() == other


def test_the_list_needs_the_same_number_of_queries_for_one_and_many(call, managing, space, alice):
    def queries() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert call("GET", "/tokens", token=managing).status_code == 200
        return len(queries)

    few = queries()
    for number in range(5):
        options = {"name": f"ci-{number}", "scopes": ["locks:read"], "created_by": alice}
        tokens.issue(actor=Actor.of_shell(), space=space, **options)
    assert queries() == few


def test_a_token_of_another_space_or_outside_the_prefixes_is_not_found(call, managing, space, red_space):
    bound = issue(space, "bound", "tokens:manage", prefixes=["ci/"])
    other_token = issue(red_space, "other_token", "locks:read")
    for token, other in ((managing, other_token), (bound, managing)):
        assert call("GET", f"/tokens/{other.split('_')[1]}", token=token).status_code == 404


def test_revoking_can_release_the_leases_and_returns_their_number(call, managing, worker_token, space):
    """Also leases of a session and those with waiters, which the engine releases in other ways."""
    session = call("POST", "/sessions", token=worker_token).json()["session_id"]
    for name, options in (("plain", {}), ("of-session", {"session_id": session}), ("wanted", {})):
        call("POST", f"/locks/{name}/acquire", {"ttl_seconds": 600, **options}, token=worker_token)
    call("POST", "/locks/of-another/acquire", {"ttl_seconds": 600}, token=managing)
    Lock.objects.filter(name="wanted").update(last_waiter_id=1)
    public_id = worker_token.split("_")[1]
    ended = call("DELETE", f"/tokens/{public_id}?leases=release", token=managing)
    assert (ended.status_code, ended.json()) == (200, {"public_id": public_id, "released": 3, "left": 0})
    assert [lock["name"] for lock in call("GET", "/locks").json()["locks"]] == ["of-another"]
    manager = Token.objects.get(name="manager")
    for event in Event.objects.filter(kind="force_released"):
        assert (event.actor_kind, event.actor_id, event.actor_name) == ("token", manager.pk, "manager")
        assert (event.channel, event.reason) == ("api", "token worker was revoked")
        assert event.request_id == ended["X-Request-Id"]
        assert event.token_id == Token.objects.get(name="worker").pk


@pytest.mark.parametrize("query", ["", "?leases=expire"])
def test_by_default_leases_of_a_revoked_token_expire(call, managing, worker_token, query):
    call("POST", "/locks/a/acquire", {"ttl_seconds": 600}, token=worker_token)
    public_id = worker_token.split("_")[1]
    assert call("DELETE", f"/tokens/{public_id}{query}", token=managing).status_code == 204
    assert call("GET", "/locks/a").json()["status"] == "held"
    assert call("GET", f"/tokens/{public_id}", token=managing).json()["live_leases"] == 1


def test_an_invalid_leases_parameter_revokes_nothing(call, managing, worker_token):
    refused = call("DELETE", f"/tokens/{worker_token.split('_')[1]}?leases=eat", token=managing)
    assert (refused.status_code, refused.json()["details"]) == (422, "leases must be one of: expire, release.")
    assert call("GET", "/locks/a", token=worker_token).status_code == 200


def test_leases_of_a_rotated_token_count_for_its_successor(call, managing, space, worker_token):
    """From the end of the overlap on; before that each is listed with its own. The page says the same."""
    call("POST", "/locks/a/acquire", {"ttl_seconds": 600}, token=worker_token)
    old, new = worker_token, call("POST", "/auth/token/rotate", {"overlap_seconds": 60}, token=worker_token)
    old_id, new_id = old.split("_")[1], new.json()["public_id"]

    def held() -> list[int]:
        message = [call("GET", f"/tokens/{one}", token=managing).json()["live_leases"] for one in (old_id, new_id)]
        assert message == [find_token(space=space, public_id=one).live_leases for one in (old_id, new_id)]
        return message

    assert held() == [1, 0]
    Token.objects.filter(public_id=old_id).update(expires_at=Now())
    assert held() == [0, 1]
    assert call("DELETE", f"/tokens/{new_id}?leases=release", token=managing).json()["released"] == 1
    assert call("GET", "/locks/a").json()["status"] == "free"


def test_revoking_takes_effect_with_the_next_request_and_happens_once(call, managing, worker_token):
    public_id = worker_token.split("_")[1]
    assert call("GET", "/locks/a", token=worker_token).status_code == 200
    assert call("DELETE", f"/tokens/{public_id}", token=managing).status_code == 204
    assert call("GET", "/locks/a", token=worker_token).status_code == 401
    assert call("DELETE", f"/tokens/{public_id}", token=managing).status_code == 404
    assert Event.objects.filter(kind="token_revoked").count() == 1
    names = [token["name"] for token in call("GET", "/tokens?revoked=true", token=managing).json()["tokens"]]
    assert "worker" in names


def test_another_spaces_token_cannot_be_revoked(call, managing, red_space):
    other_token = issue(red_space, "other_token", "locks:read")
    assert call("DELETE", f"/tokens/{other_token.split('_')[1]}", token=managing).status_code == 404
    assert call("GET", "/locks/a", token=other_token).status_code == 200


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


def test_the_last_use_is_recorded_without_delaying_the_request(call, worker_token):
    call("GET", "/locks/a", token=worker_token, **{"User-Agent": "octo/1.0"})
    assert Token.objects.get(name="worker").last_used_at is None
    usage_flusher.flush()
    used = Token.objects.get(name="worker")
    assert (used.last_used_address, used.last_used_agent) == ("127.0.0.1", "octo/1.0")
    call("GET", "/locks/a", token=worker_token, **{"User-Agent": "octo/2.0"})
    usage_flusher.flush()
    assert Token.objects.get(name="worker").last_used_agent == "octo/1.0"


def test_a_token_with_prefixes_manages_only_tokens_within_them(call, space):
    bound = issue(space, "bound", "tokens:manage", prefixes=["blue-"])
    within = issue(space, "within", "locks:read", prefixes=["blue-ci/"])
    outside = issue(space, "outside", "locks:read", prefixes=["red-"])
    listed = {token["name"] for token in call("GET", "/tokens", token=bound).json()["tokens"]}
    assert listed == {"bound", "within"}
    assert call("DELETE", f"/tokens/{outside.split('_')[1]}", token=bound).status_code == 404
    assert call("DELETE", f"/tokens/{within.split('_')[1]}", token=bound).status_code == 204


@pytest.mark.parametrize("public_id", ["a%00b", "x" * 13, "%F0%9F%94%92", ".."])
def test_an_invalid_public_id_is_not_found(call, managing, public_id):
    assert call("DELETE", f"/tokens/{public_id}", token=managing).status_code == 404


def test_a_token_revoked_meanwhile_cannot_be_rotated(space, worker_token):
    held = Token.objects.get(name="worker")
    Token.objects.filter(pk=held.pk).update(revoked_at="2020-01-01T00:00:00Z")
    with pytest.raises(teams.NotAllowed):
        tokens.rotate(actor=Actor.of_token(held), token=held, overlap=timedelta(0))
    with pytest.raises(tokens.NotRotatable):
        tokens.rotate(actor=Actor.of_shell(), token=held, overlap=timedelta(0))
    assert Token.objects.filter(revoked_at__isnull=True, name="worker").count() == 0
