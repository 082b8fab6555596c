"""Some hundred valid and invalid requests, through the fast path and through Django alone: the responses are the same.

Two spaces with the same names and limits are the two sides, so that each has its own course of events.
"""

import json
import random
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db.models.functions import Now

from locks.api.limits import limits
from locks.models import Event, Space, Team, Token
from tests.conftest import issue
from tests.locks.api import test_bad_input as bad_input
from tests.octoadmin.batching.both_paths import HOST, Paths, counted, on_paths
from tests.octoadmin.http_client import Reply, ask, chunked, listening

REQUESTS = 400
NAMES = ("a", "b", "issue-1842", "path:src%2Fauth.rs", "path:src/auth.rs", "caf%C3%A9", "team/a/b", "closes")
ODD_NAMES = ("", "..", "a//b", "%ff", "a%00", "claim-next", "x" * 300, "a%20b", "closed/x", "/a", "renew-all")
# None so short that a lease could run out between the two sides' turns.
TTLS = (None, 60, 60.0, 3600, 0, -1, 10**9, "60", True, 1.5)
ODD_HEADERS = (
    (b"authorization", b"Bearer x"), (b"x-forwarded-proto", b"https"), (b"x_y", b"z"),
    (b"cookie", b"sessionid=nobodys"),
)  # fmt: skip
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


@dataclass
class Side:
    """One of the two courses of events. Leases are known by their place in it."""

    port: int
    tokens: dict[str, str]
    leases: list[str] = field(default_factory=lambda: ["3f8e4a4c-6b5c-4ca8-9a8f-0f6ea4f4d9a5"])
    fencing_tokens: list[int] = field(default_factory=list)
    holders: list[str] = field(default_factory=list)
    sessions: dict[str, str] = field(default_factory=dict)

    async def open_sessions(self) -> None:
        """One that lives, and one that has ended."""
        for key in ("live", "over"):
            opened = await self._plainly("POST", "/sessions", b'{"ttl_seconds": 300}')
            self.sessions[key] = opened["session_id"]
        await self._plainly("DELETE", f"/sessions/{self.sessions['over']}")

    async def _plainly(self, method: str, path: str, body: bytes = b"") -> Any:
        kind = [(b"content-type", b"application/json")]
        reply = await self.ask(method, path, token="worker", body=body, headers=kind, pieces=1)
        return json.loads(reply.body or b"null")

    async def ask(self, method: str, path: str, *, token: str | None, body: bytes, headers: Any, pieces: int) -> Reply:
        body = body.replace(b"lease:last:", self.leases[-1].encode())
        for place, lease in enumerate(self.leases):
            body = body.replace(f"lease:{place}:".encode(), lease.encode())
        for key, session in self.sessions.items():
            body = body.replace(f"session:{key}:".encode(), session.encode())
            path = path.replace(f"session:{key}:", session)
        fields = [HOST, *headers]
        if token is not None:
            fields.append((b"authorization", self.tokens.get(token, token).encode()))
        if body and not any(name == b"transfer-encoding" for name, _ in headers):
            fields.append((b"content-length", str(len(body)).encode()))
        step = -(-len(body) // pieces) or 1
        parts = [body[start : start + step] for start in range(0, len(body), step)]
        if any(name == b"transfer-encoding" for name, _ in headers):
            parts = chunked(parts)
        return await ask(self.port, method, path, fields, pieces=parts)

    def understood(self, reply: Reply) -> tuple[Any, ...]:
        """The answer without what differs between any two courses: ids, tokens, times."""
        headers = {k: v for k, v in reply.headers.items() if k not in ("x-request-id", "content-length", "date")}
        assert re.fullmatch(r"req_[0-9a-f]{32}", reply.headers["x-request-id"])
        assert int(reply.headers["content-length"]) == len(reply.body)
        return reply.status, headers, [self._known(key, value) for key, value in _flat(json.loads(reply.body))]

    def _known(self, key: str, value: Any) -> tuple[str, Any]:
        match key:
            case "lease_id":
                return key, self._place(self.leases, value)
            case "fencing_token" if value is not None:
                return key, self._place(self.fencing_tokens, value)
            case "holder_id" if value is not None:
                return key, self._place(self.holders, value)
            case "session_id" if value != "…":
                return key, list(self.sessions.values()).index(value)
            case "request_id":
                return key, "an id"
            case "retry_after_ms" | "renew_after_ms":
                return key, "a while"
        return key, RFC3339.sub("a time", value) if isinstance(value, str) else value

    @staticmethod
    def _place(known: list[Any], value: Any) -> int:
        if value not in known:
            known.append(value)
        return known.index(value)


def _flat(value: Any, key: str = "") -> list[tuple[str, Any]]:
    """In the order in which it was written, which counts too."""
    if isinstance(value, dict):
        return [pair for name, item in value.items() for pair in [(name, "…"), *_flat(item, name)]]
    if isinstance(value, list):
        return [pair for item in value for pair in [(key, "…"), *_flat(item, key)]]
    return [(key, value)]


def kind_of(understood: tuple[Any, ...]) -> tuple[int, str | None]:
    status, _headers, fields = understood
    return status, next((value for key, value in fields if key == "code" and value != "…"), None)


def acquire_body(chance: random.Random, name: str) -> Any:
    body: dict[str, Any] = {}
    if (ttl := chance.choice((*(60,) * 20, *TTLS))) is not None:
        body["ttl_seconds"] = ttl
    if chance.random() < 0.5:
        body["metadata"] = chance.choice(("host=a", "", "ünïcödé", "x" * 1024, "x" * 1025, "a\0b", 7, None))
    if chance.random() < 0.3:
        body["owner"] = chance.choice(("runner-7", "x" * 128, "x" * 129, "", None, "a\0"))
    if chance.random() < 0.2:
        body["lock_delay_seconds"] = 60 if name == "closes" else chance.choice((0, 0, 61, None))
    if chance.random() < 0.1:
        body["unknown"] = [1, {"deep": True}]
    if chance.random() < 0.1:
        body["session_id"] = chance.choice(("session:live:", "session:over:", "3f8e4a4c-6b5c-4ca8-9a8f-0f6ea4f4d9a5"))
        body["ephemeral"] = chance.choice((True, False, None))
    if chance.random() < 0.1:
        body["wait_seconds"] = chance.choice((0, None, 61, -1, "1"))
    return body


def a_request(chance: random.Random, leases: int) -> dict[str, Any]:
    name = chance.choice(NAMES) if chance.random() < 0.92 else chance.choice(ODD_NAMES)
    verb = chance.choice(("acquire", "acquire", "renew", "release", "inspect"))
    headers: list[tuple[bytes, bytes]] = []
    body: Any = None
    match verb:
        case "acquire":
            body = acquire_body(chance, name)
            if chance.random() < 0.2:
                headers.append((b"idempotency-key", chance.choice((b"k1", b"k2", b"", b"a b", b"x" * 256))))
        case "renew" | "release":
            body = {"lease_id": f"lease:{chance.randrange(max(0, leases - 4), leases)}:"}
            if chance.random() < 0.05:
                body = chance.choice(({}, {"lease_id": 7}, {"lease_id": "no uuid"}, [], "x"))
            elif verb == "renew" and chance.random() < 0.3:
                body["ttl_seconds"] = chance.choice(TTLS)
    content = b"" if body is None or body == {} else json.dumps(body).encode()
    if chance.random() < 0.03:
        content = chance.choice((b"{", b"\xff", b"[" * 2000, b"null", b" ", b"x" * 70_000, b'{"ttl_seconds":60,'))
    if content:
        plain = chance.random() < 0.93
        kinds = (b"application/json",) if plain else (b"text/plain", b"application/json; charset=utf-8", b"")
        headers.append((b"content-type", chance.choice(kinds)))
    if content and chance.random() < 0.05:
        headers.append((b"transfer-encoding", b"chunked"))
    if chance.random() < 0.05:
        headers.append(chance.choice(ODD_HEADERS))
    tokens = (*("worker",) * 15, "reader", "bound", "revoked", "Bearer wrong", "basic x", None)
    path = f"/locks/{name}" if verb == "inspect" else f"/locks/{name}/{verb}"
    if chance.random() < 0.03:
        path += chance.choice(("?x=1", "/", "%2Facquire"))
    return {
        "method": "GET" if verb == "inspect" else "POST",
        "path": path,
        "token": chance.choice(tokens),
        "body": content,
        "headers": headers,
        "pieces": 1 if chance.random() < 0.9 else 3,
    }


# What chance seldom brings about, one after the other.
COURSE = [
    {"path": "/locks/kept/acquire", "body": b'{"ttl_seconds":60}', "key": b"k9"},
    {"path": "/locks/kept/acquire", "body": b'{"ttl_seconds":60}', "key": b"k9"},
    {"path": "/locks/kept/acquire", "body": b'{"ttl_seconds":61}', "key": b"k9"},
    {"path": "/locks/shut/acquire", "body": b'{"lock_delay_seconds":60}', "key": b"k10"},
    {"path": "/locks/shut/release", "body": b'{"lease_id":"lease:last:"}'},
    {"path": "/locks/shut/acquire", "body": b""},
    *(
        {"path": f"/sessions/{session}/keepalive", "body": body, "token": token}
        for session in ("session:live:", "session:over:", "3f8e4a4c-6b5c-4ca8-9a8f-0f6ea4f4d9a5", "x", "%30", "")
        for body in (b"", b"{}", b"{")
        for token in ("worker", "reader", "bound", "Bearer wrong")
    ),
    {"path": "/locks/kept/keepalive", "body": b""},
]
# What a table of its own says about each of them; here it matters only that both paths say the same.
BAD_INPUT = [
    *({"path": path, "body": b""} for path in bad_input.NAMES),
    *({"path": f"/locks/{name}/acquire", "body": b""} for name, _ in bad_input.GOOD_NAMES),
    *({"path": "/locks/a/acquire", "body": json.dumps({"ttl_seconds": ttl}).encode()} for ttl, *_ in bad_input.TTLS),
    *({"path": "/locks/a/acquire", "body": json.dumps(fields).encode()} for fields, *_ in bad_input.FIELDS),
]


def twin(name: str, **terms: Any) -> dict[str, str]:
    space = Space.objects.create(team=Team.objects.create(slug=name, name=name), slug="main", name="Main", **terms)
    issued = {
        "worker": issue(space, "worker", "locks:read", "locks:write"),
        "reader": issue(space, "reader", "locks:read"),
        "bound": issue(space, "bound", "locks:read", "locks:write", prefixes=["a", "team/"]),
    }
    issued["revoked"] = issue(space, "revoked", "locks:read", "locks:write")
    Token.objects.filter(space=space, name="revoked").update(revoked_at=Now())
    return {key: f"Bearer {token}" for key, token in issued.items()}


@pytest.mark.parametrize("octostore_compatibility", [False, True])
def test_both_paths_give_the_same_responses(committed: None, octostore_compatibility: bool) -> None:
    terms = {"octostore_compatibility": octostore_compatibility, "max_ttl_seconds": 7200}
    tokens = [twin("batched", **terms), twin("django", **terms)]
    before = counted("octoadmin_request_seconds_count", kind="batched")

    async def compare(sides: list[Side]) -> None:
        for side in sides:
            await side.open_sessions()
        chance = random.Random(1842)
        for number in range(REQUESTS):
            # The two share an address, and with it the limit for wrong tokens.
            limits.reset()
            asked = a_request(chance, len(sides[0].leases))
            batched, django = [side.understood(await side.ask(**asked)) for side in sides]
            assert batched == django, (number, asked)
            seen.add(kind_of(batched))
        for plain in (*COURSE, *BAD_INPUT):
            asked = {"method": "POST", "token": "worker", "pieces": 1, **plain}
            key = asked.pop("key", None)
            asked["headers"] = [(b"content-type", b"application/json")] if asked["body"] else []
            asked["headers"] += [(b"idempotency-key", key)] if key else []
            batched, django = [side.understood(await side.ask(**asked)) for side in sides]
            assert batched == django, asked
            seen.add(kind_of(batched))

    async def scenario(paths: Paths) -> None:
        async with listening(paths.bridge) as django_only:
            await compare([Side(paths.port, tokens[0]), Side(django_only, tokens[1])])

    seen: set[tuple[int, str | None]] = set()
    on_paths("", scenario)
    # Or else the comparison would say nothing.
    assert seen >= {
        (200, None), (400, "invalid_ttl"), (400, "lease_not_current"), (401, "authentication_failed"),
        (403, "forbidden"), (404, "lease_not_current"), (404, "not_found"), (409, None), (409, "conflict"),
        (410, "session_expired"), (422, "invalid_input"),
    }  # fmt: skip
    assert counted("octoadmin_request_seconds_count", kind="batched") - before > REQUESTS / 3
    histories = [
        list(
            Event.objects.filter(lock_name__isnull=False, space_id=Space.objects.get(team__slug=team).pk)
            .order_by("id")
            .values_list("kind", "lock_name", "owner", "metadata")
        )
        for team in ("batched", "django")
    ]
    assert histories[0] == histories[1]
    assert histories[0]
