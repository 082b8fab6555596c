"""The table of bad input: each with its code, and nothing changed."""

import pytest

from locks.models import Event, Lock, Token
from tests.conftest import issue

pytestmark = pytest.mark.django_db

TTLS = [
    (0, 400, "invalid_ttl"),
    (-1, 400, "invalid_ttl"),
    (86_401, 400, "invalid_ttl"),
    (10**12, 400, "invalid_ttl"),
    (10**30, 400, "invalid_ttl"),
    (1.5, 422, "invalid_input"),
    ("60", 422, "invalid_input"),
    (True, 422, "invalid_input"),
    ([], 422, "invalid_input"),
]
FIELDS = [
    ({"metadata": "x" * 1025}, 400),
    ({"metadata": "a\0b"}, 422),
    ({"metadata": {"a": 1}}, 422),
    ({"metadata": 7}, 422),
    ({"owner": ""}, 422),
    ({"owner": "x" * 129}, 422),
    ({"owner": "a\0b"}, 422),
    ({"lock_delay_seconds": -1}, 400),
    ({"lock_delay_seconds": 61}, 400),
    ({"lock_delay_seconds": "1"}, 422),
    ({"ephemeral": True}, 400),
    ({"session_id": "not-a-uuid"}, 422),
    ({"acl": ["user:7"]}, 400),
    ({"acl": []}, 400),
    ({"acl": {"acquire": []}}, 400),
]
NAMES = [
    "/locks//acquire",
    "/locks/../acquire",
    "/locks/./acquire",
    "/locks/a/../b/acquire",
    "/locks/a//b/acquire",
    "/locks/a%2F/acquire",
    "/locks/%2Fa/acquire",
    "/locks/a%20b/acquire",
    "/locks/a%00b/acquire",
    "/locks/a%0Ab/acquire",
    "/locks/a%7Fb/acquire",
    "/locks/a%FFb/acquire",
    "/locks/a%3Fb/acquire",
    "/locks/%F0%9F%94%92/acquire",  # a picture of a lock is no letter
    f"/locks/{'x' * 257}/acquire",
    f"/locks/{'%C3%BC' * 129}/acquire",
    "/locks/a/renew/acquire",
    "/locks/a/history/acquire",
    "/locks/claim-next/acquire",
]
GOOD_NAMES = [
    ("deploy-main", "deploy-main"),
    ("issue:8057324b", "issue:8057324b"),
    ("a.b_c-d:e@f+g=h~i", "a.b_c-d:e@f+g=h~i"),
    ("%C3%BCber%2F%E6%97%A5%E6%9C%AC", "über/日本"),
    ("%F0%A0%80%80", "\U00020000"),  # a letter of four bytes
    ("%E0%A4%A8%E0%A4%AE%E0%A4%B8%E0%A5%8D%E0%A4%A4%E0%A5%87", "नमस्ते"),
    ("x" * 256, "x" * 256),
    ("acquire/a", "acquire/a"),
    ("watch", "watch"),
    ("acquire", "acquire"),
    ("deploy%2Frelease", "deploy/release"),
    ("deploy%2fhistory", "deploy/history"),
    ("%C3%BCber%2Facquire", "über/acquire"),
    ("a/b%2Fwatch", "a/b/watch"),
    ("a/claim-next", "a/claim-next"),
]
BODIES = [
    (b"[]", 422),
    (b"null", 422),
    (b'"text"', 422),
    (b"7", 422),
    (b'{"ttl_seconds": 60', 400),
    (b"{'ttl_seconds': 60}", 400),
    (b'{"metadata": "\\ud800"}', 400),
    (b'{"metadata": "\xff"}', 400),
    (b"\xef\xbb\xbf{}", 400),
    (b'{"metadata": ' + b"[" * 60_000, 400),
    (b'{"colour": ' + b"[" * 60_000, 400),
    (b'{"metadata": "' + b"x" * 65_536 + b'"}', 413),
    (b'{"metadata": "' + b"x" * 2**20 + b'"}', 413),
]


@pytest.fixture
def nothing_changed(space, operator_token):
    before = Event.objects.count()
    yield
    assert not Lock.objects.filter(lease_id__isnull=False).exists()
    assert Event.objects.count() == before


def refused(response, status: int, code: str) -> None:
    assert (response.status_code, response.json()["code"]) == (status, code), response.content
    assert set(response.json()) <= {"error", "code", "details", "request_id", "retry_after_ms"}
    assert response.json()["details"]
    assert response.json()["request_id"] == response["X-Request-Id"]


@pytest.mark.parametrize(("ttl", "status", "code"), TTLS)
@pytest.mark.usefixtures("nothing_changed")
def test_ttl(call, ttl, status, code):
    refused(call("POST", "/locks/deploy-main/acquire", {"ttl_seconds": ttl}), status, code)
    refused(call("POST", "/locks/claim-next", {"names": ["a"], "ttl_seconds": ttl}), status, code)
    refused(call("POST", "/locks/acquire-all", {"names": ["a"], "ttl_seconds": ttl}), status, code)


@pytest.mark.parametrize(("body", "status"), FIELDS)
@pytest.mark.usefixtures("nothing_changed")
def test_fields(call, body, status):
    refused(call("POST", "/locks/deploy-main/acquire", body), status, "invalid_input")
    refused(call("POST", "/locks/claim-next", {"names": ["a"], **body}), status, "invalid_input")
    refused(call("POST", "/locks/acquire-all", {"names": ["a"], **body}), status, "invalid_input")


@pytest.mark.parametrize("path", NAMES)
@pytest.mark.usefixtures("nothing_changed")
def test_names(call, path):
    refused(call("POST", path), 400, "invalid_lock_name")


@pytest.mark.parametrize(("path", "name"), GOOD_NAMES)
def test_good_names(call, path, name):
    assert call("POST", f"/locks/{path}/acquire").json()["name"] == name
    assert call("GET", f"/locks/{path}").json()["status"] == "held"


@pytest.mark.parametrize(("raw", "status"), BODIES, ids=lambda value: str(value)[:24])
@pytest.mark.usefixtures("nothing_changed")
def test_bodies(call, raw, status):
    refused(call("POST", "/locks/deploy-main/acquire", raw=raw), status, "invalid_input")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "application/xml"])
@pytest.mark.usefixtures("nothing_changed")
def test_content_types(call, content_type):
    refused(
        call("POST", "/locks/deploy-main/acquire", {"ttl_seconds": 60}, content_type=content_type),
        415,
        "invalid_input",
    )


def test_a_charset_in_the_content_type_is_fine(call):
    response = call("POST", "/locks/a/acquire", {}, content_type="application/json; charset=utf-8")
    assert response.status_code == 200


def test_unknown_fields_are_ignored(call):
    assert call("POST", "/locks/a/acquire", {"colour": "blue"}).json()["status"] == "acquired"


class TestTokens:
    @pytest.mark.parametrize("header", [None, "", "Basic abc", "Bearer", "Bearer ", "bearer"])
    @pytest.mark.usefixtures("nothing_changed")
    def test_missing(self, call, header):
        headers = {} if header is None else {"Authorization": header}
        response = call("POST", "/locks/a/acquire", token=None, **headers)
        refused(response, 401, "authentication_required")
        assert response["WWW-Authenticate"] == "Bearer"

    def test_every_invalid_token_gets_the_same_response(self, call, space, red_space):
        from locks import token_format

        revoked = issue(space, "revoked", "locks:read", "locks:write")
        Token.objects.filter(name="revoked").update(revoked_at="2020-01-01T00:00:00Z")
        expired = issue(space, "expired", "locks:read", "locks:write")
        Token.objects.filter(name="expired").update(expires_at="2020-01-01T00:00:00Z")
        answers = set()
        for token in ("nonsense", "octo_abc_def", token_format.generate(), revoked, expired, "é" * 10):
            for method, path in (
                ("POST", "/locks/a/acquire"),
                ("GET", "/locks/a"),
                ("GET", "/locks"),
                ("GET", "/whoami"),
            ):
                response = call(method, path, token=token)
                assert response.status_code == 401
                body = response.json()
                answers.add((body["code"], body["error"], body["details"]))
        assert {code for code, *_ in answers} == {"authentication_failed"}
        assert len(answers) == 1
        assert not Lock.objects.exists()

    @pytest.mark.parametrize(
        ("method", "path", "body", "scope"),
        [
            ("POST", "/locks/a/acquire", {}, "locks:write"),
            ("POST", "/locks/claim-next", {"names": ["a"]}, "locks:write"),
            ("POST", "/locks/acquire-all", {"names": ["a"]}, "locks:write"),
            ("POST", "/locks/a/force-release", {"reason": "x"}, "locks:force"),
            ("GET", "/locks/a", None, "locks:read"),
            ("GET", "/locks", None, "locks:read"),
            ("GET", "/tokens", None, "tokens:manage"),
        ],
    )
    def test_without_the_scope(self, call, space, method, path, body, scope):
        token = issue(space, "narrow", "webhooks:manage")
        response = call(method, path, body, token=token)
        refused(response, 403, "forbidden")
        assert scope in response.json()["details"]

    def test_outside_the_prefixes(self, call, space):
        token = issue(space, "narrow", "locks:read", "locks:write", prefixes=["ci/"])
        assert call("POST", "/locks/ci/a/acquire", token=token).status_code == 200
        for method, path in (("POST", "/locks/deploy/acquire"), ("GET", "/locks/deploy")):
            response = call(method, path, token=token)
            refused(response, 403, "forbidden")
            assert "'deploy'" in response.json()["details"]


class TestLeaseIds:
    @pytest.mark.parametrize("verb", ["renew", "release"])
    @pytest.mark.parametrize("lease_id", ["", "abc", None, 7, "g" * 36])
    def test_malformed_lease_ids(self, call, verb, lease_id):
        refused(call("POST", f"/locks/a/{verb}", {"lease_id": lease_id}), 422, "invalid_input")
        refused(call("POST", f"/locks/a/{verb}", {}), 422, "invalid_input")
        refused(call("POST", f"/locks/a/{verb}"), 422, "invalid_input")


class TestRoutes:
    @pytest.mark.parametrize("path", ["/nowhere", "/lock", "/locks/a/acquire/", "/api/v1"])
    def test_unknown_paths(self, call, path):
        response = call("POST", path, {})
        assert response.status_code in (404, 405, 400)
        assert response["Content-Type"] == "application/json"
        assert response.json()["code"] in ("not_found", "invalid_input", "invalid_lock_name")

    def test_wrong_method(self, call):
        for method, path in (
            ("GET", "/locks/a/acquire"),
            ("PUT", "/locks/a"),
            ("DELETE", "/locks"),
            ("PATCH", "/whoami"),
        ):
            response = call(method, path)
            refused(response, 405, "invalid_input")
            assert response["Allow"]


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "limit=x", "limit=-1", "status=free", "sort=colour", "cursor=%00", "cursor=abc",
     "prefix=%00", "sort=expires_at&status=all"],
)  # fmt: skip
def test_list_parameters(call, query):
    refused(call("GET", f"/locks?{query}"), 422, "invalid_input")
