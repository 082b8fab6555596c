"""An in-memory lock server for unit tests, as an httpx transport. The same conformance tests run on it and on the real
server; what it does not have (webhooks, tokens, freezes, runs and their store, access lists, limits) answers 404.

    server = FakeServer()
    with server.client() as client, client.lock("report"):
        server.advance(3600)  # on the server's clock: the lease expires
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple, NoReturn
from urllib.parse import parse_qs, unquote

import httpx

from octo import names
from octo.async_client import AsyncClient
from octo.client import Client
from octo.errors import Code
from octo.models import DEFAULT_SESSION_TTL, DEFAULT_TTL, MAX_SESSION_TTL, format_time

SCOPES = ("locks:read", "locks:write", "locks:force", "audit:read")
MAX_TTL = 86_400
MAX_METADATA = 1_024
MAX_LOCK_DELAY = 60
MIN_SESSION_TTL = 10
MAX_BLOCKERS = 100
POLL_SECONDS = 0.01
_NAME = re.compile(r"[\w.\-:@+=~]+(/[\w.\-:@+=~]+)*")
_LEASE_FIELDS = ("name", "lease_id", "fencing_token", "owner", "metadata", "acquired_at", "expires_at")
_HOLDER_FIELDS = ("name", "holder_id", "owner", "metadata", "fencing_token", "acquired_at", "expires_at")


class _Refused(Exception):
    def __init__(self, status: int, code: Code, details: str) -> None:
        self.status = status
        self.body = {
            "error": code.value,
            "code": code.value,
            "details": details,
            "request_id": f"req_{uuid.uuid4().hex}",
        }


class _Call(NamedTuple):
    method: str
    path: str
    parameters: dict[str, str]
    body: Any
    token: str
    key: str | None
    # Its place in the queue.
    ticket: object


class _Lock:
    """A name and its lease, if it has one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lease_id: str | None = None
        self.fencing_token = 0
        self.available_at: float | None = None
        self.lock_delay = 0
        self.token = self.owner = self.holder_id = ""
        self.metadata: str | None = None
        self.session: dict[str, Any] | None = None
        self.ttl = DEFAULT_TTL
        self.acquired_at = self.renewed_at = self.expires_at = 0.0


class FakeServer(httpx.AsyncBaseTransport):
    def __init__(
        self,
        *,
        tokens: Mapping[str, Iterable[str]] | None = None,
        namespaces: Mapping[str, str] = names.DEFAULT_RULES,
        lock_policy: str = "warn",
    ) -> None:
        """`tokens` maps each token to its scopes, `namespaces` each namespace to its rule: exact, tree or all."""
        self.namespaces = dict(namespaces)
        self.lock_policy = lock_policy
        self.url = "http://fake-octo.localhost"
        self.tokens = {token: tuple(scopes) for token, scopes in (tokens or {"fake-token": SCOPES}).items()}
        self._offset = 0.0
        self._locks: dict[str, _Lock] = {}
        self._sessions: dict[str, dict[str, Any]] = {}
        self._keys: dict[tuple[str, str | None], tuple[Any, Any]] = {}
        self._events: list[dict[str, Any]] = []
        self._waiting: list[tuple[object, set[str]]] = []
        self._rooms: dict[str, _Lock] = {}
        # Each blocking client has a thread of its own.
        self._guard = threading.Lock()

    def client(self, token: str | None = None, **options: Any) -> Client:
        return Client(self.url, token or next(iter(self.tokens)), transport=self, **options)

    def async_client(self, token: str | None = None, **options: Any) -> AsyncClient:
        return AsyncClient(self.url, token or next(iter(self.tokens)), transport=self, **options)

    def advance(self, seconds: float) -> None:
        """Time passes for the server; clients go on counting by their own clock."""
        self._offset += seconds

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        path = request.url.raw_path.decode().partition("?")[0]
        parameters = {name: values[0] for name, values in parse_qs(request.url.query.decode()).items()}
        try:
            if path.startswith("/elections"):
                return self._elections(request, path.split("/")[2:])
            token = self._authenticate(request.headers.get("authorization"))
            if path.endswith("/watch"):
                return self._watch(path, parameters, request.headers.get("last-event-id"))
            body = json.loads(request.content or b"{}")
            key = request.headers.get("idempotency-key")
            return self._response(
                *await self._wait(_Call(request.method, path, parameters, body, token, key, object()))
            )
        except _Refused as refused:
            return self._response(refused.status, refused.body)
        except ValueError:
            return self._response(400, _Refused(400, Code.INVALID_INPUT, "The body is not valid JSON.").body)

    @staticmethod
    def _response(status: int, answer: Any) -> httpx.Response:
        return httpx.Response(status) if status == 204 else httpx.Response(status, json=answer)

    def _authenticate(self, header: str | None) -> str:
        if not header:
            raise _Refused(401, Code.AUTHENTICATION_REQUIRED, "Send a bearer token.")
        token = header.removeprefix("Bearer ")
        if token not in self.tokens:
            raise _Refused(401, Code.AUTHENTICATION_FAILED, "The token is unknown.")
        return token

    async def _wait(self, call: _Call) -> tuple[int, Any]:
        """Requests that wait are served in the order in which they came."""
        deadline = time.monotonic() + (call.body.get("wait_seconds") or 0)
        try:
            while True:
                with self._guard:
                    status, answer = self._answer(call)
                    refused = isinstance(answer, dict) and answer.get("status") in ("held", "delayed")
                    if not refused or time.monotonic() >= deadline or not call.path.startswith("/locks/"):
                        return status, answer
                    if all(call.ticket is not ticket for ticket, _ in self._waiting):
                        wanted = self._names(call.body) if "names" in call.body else [self._name(call.path)[0]]
                        self._waiting.append((call.ticket, set(wanted)))
                await asyncio.sleep(POLL_SECONDS)
        finally:
            with self._guard:
                self._waiting = [entry for entry in self._waiting if entry[0] is not call.ticket]

    def _answer(self, call: _Call) -> tuple[int, Any]:
        method, path, body, token = call.method, call.path, call.body, call.token
        self._expire()
        parts = path.strip("/").split("/")
        if path == "/health":
            return 200, {"status": "ok"}
        if path == "/whoami":
            scopes = list(self.tokens[token])
            described: dict[str, Any] = {"public_id": token, "name": token, "scopes": scopes, "prefixes": []}
            described["expires_at"] = self._at(self._now() + 90 * 86_400)
            return 200, {"team": "fake", "space": "fake", "token": described, "scopes": scopes}
        if parts[0] == "sessions":
            return self._session(method, parts, body, token)
        if path == "/events" or path.endswith("/history"):
            self._require(token, "audit:read")
            name = None if path == "/events" else self._name(path)[0]
            events = [event for event in reversed(self._events) if name in (None, event["lock_name"])]
            return 200, {"events": events[: int(call.parameters.get("limit", 100))], "next_cursor": None}
        if path == "/locks" and method == "GET":
            return self._list(call.parameters, token)
        if parts[0] == "locks" and len(parts) > 1:
            batch = {"acquire-all": self._acquire_all, "claim-next": self._claim_next}
            if method == "POST" and parts[1] in batch:
                self._require(token, "locks:write")
                return self._once(call, lambda: batch[parts[1]](call))
            if method == "POST" and parts[1:] == ["check"]:
                return self._check(call)
            if method == "POST" and parts[1] in ("renew-all", "release-all"):
                self._require(token, "locks:write")
                leases = self._field(body, "leases", list)
                return 200, {"results": [self._result(parts[1], one, token) for one in leases]}
            return self._one(call)
        self._not_found()

    def _one(self, call: _Call) -> tuple[int, Any]:
        body, token = call.body, call.token
        name, verb = self._name(call.path)
        if call.method == "GET" and not verb:
            self._require(token, "locks:read")
            return 200, self._info(self._lock(name))
        if verb == "force-release":
            self._require(token, "locks:force")
            return self._force_release(self._lock(name), body)
        self._require(token, "locks:write")
        if verb == "acquire":
            return self._once(call, lambda: self._acquire(name, call))
        if verb == "renew":
            return 200, self._renew(name, body, token)
        if verb == "release":
            self._release(name, body, token)
            return 200, None
        self._not_found()

    def _name(self, path: str) -> tuple[str, str]:
        encoded = path.removeprefix("/locks/")
        verbs = ("acquire", "renew", "release", "force-release", "watch", "history")
        first, _, last = encoded.rpartition("/")
        name, verb = (unquote(first), last) if first and last in verbs else (unquote(encoded), "")
        return self._check_name(name), verb

    def _check_name(self, name: str) -> str:
        if self.namespaces.get(names.split(name)[0]) == "tree":
            name = names.canonical(name)
        dots = any(not segment.strip(".") for segment in name.split("/"))
        if not _NAME.fullmatch(name) or len(name.encode()) > 256 or dots:
            raise _Refused(400, Code.INVALID_LOCK_NAME, "The name is not valid.")
        return name

    @staticmethod
    def _not_found() -> NoReturn:
        raise _Refused(404, Code.NOT_FOUND, "FakeServer does not have this.")

    def _require(self, token: str, scope: str) -> None:
        if scope not in self.tokens[token]:
            raise _Refused(403, Code.FORBIDDEN, f"The token lacks the scope {scope}.")

    @staticmethod
    def _field(body: Any, field: str, kind: type) -> Any:
        if not isinstance(body, dict) or not isinstance(body.get(field), kind):
            raise _Refused(422, Code.INVALID_INPUT, f"{field} is missing or of the wrong type.")
        return body[field]

    def _lock(self, name: str) -> _Lock:
        return self._locks.get(name) or _Lock(name)

    def _now(self) -> float:
        return time.time() + self._offset

    def _at(self, seconds: float | None) -> str | None:
        return None if seconds is None else format_time(datetime.fromtimestamp(0, timezone.utc) + timedelta(0, seconds))

    def _record(self, kind: str, lock: _Lock, **facts: Any) -> None:
        event = {"kind": kind, "lock_name": lock.name, "owner": lock.owner, "metadata": lock.metadata}
        facts = {"fencing_token": lock.fencing_token, "at": self._at(self._now()), "reason": None, **facts}
        self._events.append({"id": len(self._events) + 1, **event, **facts})

    def _end(self, lock: _Lock, kind: str, *, reason: str | None = None, delay: int | None = None) -> None:
        ended_at = min(self._now(), lock.expires_at) if kind == "expired" else self._now()
        delay = lock.lock_delay if delay is None else delay
        self._record(kind, lock, reason=reason)
        lock.lease_id = None
        lock.lock_delay = delay
        lock.available_at = ended_at + delay if delay else None

    def _expire(self) -> None:
        now = self._now()
        for session in self._sessions.values():
            session["active"] = session["active"] and session["expires_at"] > now
        for lock in self._locks.values():
            if lock.lease_id and lock.expires_at <= now:
                self._end(lock, "expired")
            elif lock.lease_id and lock.session is not None and not lock.session["active"]:
                self._end(lock, "expired", reason="its session ran out")
            if lock.available_at is not None and lock.available_at <= now:
                lock.available_at = None

    def _once(self, call: _Call, act: Callable[[], tuple[int, Any]]) -> tuple[int, Any]:
        """The retry of a lost answer gets the same lease, while that is live."""
        key = (call.token, call.key)
        request = {field: value for field, value in call.body.items() if field != "wait_seconds"}
        if key in self._keys:
            before, answer = self._keys[key]
            if before != request:
                raise _Refused(409, Code.CONFLICT, "This Idempotency-Key was used for another request.")
            leases = answer.get("leases", [answer])
            if all(self._lock(lease["name"]).lease_id == lease["lease_id"] for lease in leases):
                return 200, answer
        status, answer = act()
        if call.key and answer["status"] == "acquired":
            self._keys[key] = (request, answer)
        return status, answer

    def _options(self, body: Any, token: str) -> dict[str, Any]:
        kinds = {"owner": str, "metadata": str, "ttl_seconds": int, "wait_seconds": int, "lock_delay_seconds": int}
        for field, kind in kinds.items():
            if body.get(field) is not None:
                self._field(body, field, kind)
        ttl = body.get("ttl_seconds") or DEFAULT_TTL
        if body.get("ttl_seconds") == 0 or not 1 <= ttl <= MAX_TTL:
            raise _Refused(400, Code.INVALID_TTL, f"ttl_seconds must be a whole number from 1 to {MAX_TTL}.")
        for refused, details in (
            (body.get("acl") is not None, "acl is not supported."),
            (body.get("ephemeral") and not body.get("session_id"), "An ephemeral lease needs a session."),
            (not 0 <= (body.get("lock_delay_seconds") or 0) <= MAX_LOCK_DELAY, "lock_delay_seconds is out of bounds."),
            (len(body.get("metadata") or "") > MAX_METADATA, "metadata is too long."),
        ):
            if refused:
                raise _Refused(400, Code.INVALID_INPUT, details)
        session = self._find_session(body["session_id"], token) if body.get("session_id") else None
        return {
            "ttl": ttl,
            "owner": body.get("owner") or (session["owner"] if session else token),
            "metadata": body.get("metadata"),
            "session": session if body.get("ephemeral") is not False else None,
            "lock_delay": body.get("lock_delay_seconds") or 0,
            "holder_id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{token} {body.get('session_id')}")),
        }

    def _blockers(self, name: str, ticket: object = None) -> list[_Lock]:
        """The leases that overlap the name; the lock itself if it is closed, or if an earlier request waits for it."""
        held = [lock for lock in self._locks.values() if lock.lease_id and self._overlap(lock.name, name)]
        if held or self._lock(name).available_at is not None:
            return held or [self._lock(name)]
        earlier = itertools.takewhile(lambda entry: entry[0] is not ticket, self._waiting if ticket else ())
        return [self._lock(name)] if any(self._overlap(one, name) for _, wanted in earlier for one in wanted) else []

    def _overlap(self, one: str, other: str) -> bool:
        return names.overlap(one, other, self.namespaces)

    def _blocked_by(self, blockers: Iterable[_Lock]) -> list[dict[str, Any]]:
        return [self._fields(lock, _HOLDER_FIELDS) for lock in blockers][:MAX_BLOCKERS]

    def _grant(self, name: str, options: dict[str, Any], token: str) -> dict[str, Any]:
        lock = self._locks.setdefault(name, _Lock(name))
        now = self._now()
        lock.__dict__.update(options)
        lock.token, lock.lease_id, lock.renewed_at = token, str(uuid.uuid4()), now
        lock.fencing_token = max(lock.fencing_token + 1, int(now * 1000))
        lock.acquired_at, lock.expires_at = now, now + lock.ttl
        self._record("acquired", lock, expires_at=self._at(lock.expires_at))
        return self._lease(lock)

    def _lease(self, lock: _Lock) -> dict[str, Any]:
        return {**self._fields(lock, _LEASE_FIELDS), "renew_after_ms": int((lock.expires_at - self._now()) * 500)}

    def _fields(self, lock: _Lock, fields: Iterable[str]) -> dict[str, Any]:
        return {
            field: self._at(getattr(lock, field)) if field.endswith("_at") else getattr(lock, field) for field in fields
        }

    def _retry_after(self, at: float) -> int:
        return max(100, min(5000, int((at - self._now()) * 1000)))

    def _acquire(self, name: str, call: _Call) -> tuple[int, Any]:
        options = self._options(call.body, call.token)
        lock = self._lock(name)
        if lock.lease_id and options["session"] is not None and lock.session is options["session"]:
            lock.expires_at = max(lock.expires_at, self._now() + options["ttl"])
            return 200, {"status": "acquired", **self._lease(lock)}
        blockers = self._blockers(name, call.ticket)
        if blockers and blockers[0].lease_id:
            retry = {"retry_after_ms": self._retry_after(blockers[0].expires_at), "waiters": self._waiters(name)}
            held = {"status": "held", **self._fields(blockers[0], _HOLDER_FIELDS), "name": name, **retry}
            if names.split(name)[0] in self.namespaces:
                held["blocked_by"] = self._blocked_by(blockers)
            return 200, held
        if lock.available_at is not None:
            left = int((lock.available_at - self._now()) * 1000)
            fields = {"available_at": self._at(lock.available_at), "lock_delay_seconds": lock.lock_delay}
            return 409, {"status": "delayed", "name": name, **fields, "retry_after_ms": left}
        if blockers:
            # Free, and the first of the queue is about to take it.
            return 200, {"status": "held", **self._fields(lock, _HOLDER_FIELDS), "retry_after_ms": 100, "waiters": 1}
        return 200, {"status": "acquired", **self._grant(name, options, call.token)}

    def _waiters(self, name: str) -> int:
        return sum(name in wanted for _, wanted in self._waiting)

    def _names(self, body: Any) -> list[str]:
        return list(dict.fromkeys(self._check_name(name) for name in self._field(body, "names", list)))

    def _check(self, call: _Call) -> tuple[int, Any]:
        self._require(call.token, "locks:read")
        ids, session = call.body.get("lease_ids") or [], call.body.get("session_id")
        held = [lock for lock in self._locks.values() if lock.lease_id]
        bound = self._find_session(session, call.token) if session else None
        ours = [lock for lock in held if lock.lease_id in ids or (bound and lock.session is bound)]
        wanted = self._names(call.body)
        others = {
            name: [lock for lock in held if lock not in ours and self._overlap(lock.name, name)] for name in wanted
        }
        conflicts = [{"name": name, "blocked_by": self._blocked_by(locks)} for name, locks in others.items() if locks]
        missing = [name for name in wanted if not any(names.covers(one.name, name, self.namespaces) for one in ours)]
        decision = {"off": "clear", "warn": "warn" if conflicts else "clear"}.get(
            self.lock_policy, "block" if missing else "clear"
        )
        return 200, {"decision": decision, "policy": self.lock_policy, "conflicts": conflicts, "missing": missing}

    def _claim_next(self, call: _Call) -> tuple[int, Any]:
        options, wanted = self._options(call.body, call.token), self._names(call.body)
        for name in wanted:
            if not self._blockers(name, call.ticket):
                return 200, {"status": "acquired", **self._grant(name, options, call.token)}
        soonest = min(self._lock(name).expires_at for name in wanted)
        return 200, {"status": "held", "retry_after_ms": self._retry_after(soonest)}

    def _acquire_all(self, call: _Call) -> tuple[int, Any]:
        options, wanted = self._options(call.body, call.token), self._names(call.body)
        blockers = list(dict.fromkeys(lock for name in wanted for lock in self._blockers(name, call.ticket)))
        if not blockers:
            return 200, {"status": "acquired", "leases": [self._grant(name, options, call.token) for name in wanted]}
        blocked_by = []
        for info in map(self._info, blockers):
            fields = ("name", "holder_id", "owner", "metadata", "fencing_token", "expires_at", "available_at")
            blocked_by.append({field: info[field] for field in fields})
        soonest = min(lock.expires_at for lock in blockers)
        return 200, {"status": "held", "blocked_by": blocked_by, "retry_after_ms": self._retry_after(soonest)}

    def _current(self, name: str, body: Any, token: str) -> _Lock:
        lock, lease_id = self._lock(name), self._field(body, "lease_id", str)
        if lock.lease_id is None:
            raise _Refused(404, Code.LEASE_NOT_CURRENT, "There is no live lease.")
        if (lock.lease_id, lock.token) != (lease_id, token):
            raise _Refused(400, Code.LEASE_NOT_CURRENT, "The lock is held under another lease.")
        return lock

    def _renew(self, name: str, body: Any, token: str) -> dict[str, Any]:
        ttl = self._options(body, token)["ttl"]
        lock = self._current(name, body, token)
        lock.ttl = ttl if body.get("ttl_seconds") else lock.ttl
        lock.renewed_at = self._now()
        lock.expires_at = self._now() + lock.ttl
        lease = self._lease(lock)
        return {field: lease[field] for field in ("lease_id", "fencing_token", "expires_at", "renew_after_ms")}

    def _release(self, name: str, body: Any, token: str) -> None:
        self._end(self._current(name, body, token), "released")

    def _result(self, verb: str, body: Any, token: str) -> dict[str, Any]:
        name = self._check_name(self._field(body, "name", str))
        known = {"name": name, "lease_id": self._field(body, "lease_id", str)}
        try:
            if verb == "renew-all":
                return {**known, "ok": True, **self._renew(name, body, token)}
            self._release(name, body, token)
        except _Refused as refused:
            return {**known, "ok": False, "code": refused.body["code"], "details": refused.body["details"]}
        return {**known, "ok": True}

    def _force_release(self, lock: _Lock, body: Any) -> tuple[int, Any]:
        reason = self._field(body, "reason", str)
        if lock.lease_id is None:
            raise _Refused(404, Code.LEASE_NOT_CURRENT, "The lock is not held: there is nothing to release.")
        if body.get("fencing_token") not in (None, lock.fencing_token):
            raise _Refused(409, Code.CONFLICT, "The lock is now held under another fencing token.")
        fields = ("owner", "metadata", "fencing_token", "acquired_at", "expires_at")
        previous = self._fields(lock, fields)
        self._end(lock, "force_released", reason=reason, delay=body.get("lock_delay_seconds"))
        return 200, {"status": "released", "name": lock.name, "previous": previous}

    def _info(self, lock: _Lock) -> dict[str, Any]:
        info: dict[str, Any] = dict.fromkeys((*_HOLDER_FIELDS, "renewed_at", "available_at"))
        info |= {"name": lock.name, "status": "free", "fencing_token": lock.fencing_token}
        info["waiters"] = self._waiters(lock.name)
        info |= {"session_id_present": False}
        if lock.lease_id:
            present = {"status": "held", "session_id_present": lock.session is not None}
            info |= {**self._fields(lock, (*_HOLDER_FIELDS, "renewed_at")), **present}
        elif lock.available_at is not None:
            info |= {"status": "delayed", "available_at": self._at(lock.available_at)}
        return info

    def _list(self, parameters: dict[str, str], token: str) -> tuple[int, Any]:
        self._require(token, "locks:read")
        prefix, status = parameters.get("prefix", ""), parameters.get("status", "held")
        infos = [self._info(self._locks[name]) for name in sorted(self._locks) if name.startswith(prefix)]
        found = [
            info
            for info in infos
            if info["status"] in (("held", "delayed") if status == "all" else (status,))
            and parameters.get("owner") in (None, info["owner"])
        ]
        if (field := parameters.get("sort", "name")) != "name":
            found.sort(key=lambda info: info[field] or "")
        limit, first = int(parameters.get("limit", 100)), int(parameters.get("cursor", 0))
        cursor = str(first + limit) if first + limit < len(found) else None
        page = {"locks": found[first : first + limit], "total": len(found), "total_is_at_least": False}
        return 200, {**page, "prefix": prefix, "next_cursor": cursor}

    def _find_session(self, session_id: str, token: str) -> dict[str, Any]:
        session = self._sessions.get(session_id)
        if session is None or session["token"] != token:
            raise _Refused(404, Code.NOT_FOUND, "There is no such session.")
        if not session["active"]:
            raise _Refused(410, Code.SESSION_EXPIRED, "The session has ended.")
        return session

    def _session(self, method: str, parts: list[str], body: Any, token: str) -> tuple[int, Any]:
        self._require(token, "locks:read" if method == "GET" else "locks:write")
        if len(parts) == 1 and method == "POST":
            ttl = max(MIN_SESSION_TTL, min(MAX_SESSION_TTL, body.get("ttl_seconds") or DEFAULT_SESSION_TTL))
            now = self._now()
            session_id = str(uuid.uuid4())
            self._sessions[session_id] = {
                "session_id": session_id, "token": token, "owner": body.get("owner") or token, "ttl_seconds": ttl,
                "metadata": body.get("metadata"), "created_at": now, "expires_at": now + ttl, "active": True,
            }  # fmt: skip
            opened = {"session_id": session_id, "expires_at": self._at(now + ttl)}
            return 201, {**opened, "keepalive_interval_secs": ttl // 3, "ttl_seconds": ttl}
        if len(parts) == 1:
            live = [one for one in self._sessions.values() if one["active"] and one["token"] == token]
            return 200, {"sessions": [self._session_info(one) for one in live]}
        if method == "GET":
            session = self._sessions.get(parts[1])
            if session is None or session["token"] != token:
                raise _Refused(404, Code.NOT_FOUND, "There is no such session.")
            return 200, self._session_info(session)
        session = self._find_session(parts[1], token)
        if method == "DELETE":
            session["active"] = False
            for lock in self._locks.values():
                if lock.lease_id and lock.session is session:
                    self._end(lock, "released", reason="its session ended")
            return 204, None
        session["expires_at"] = self._now() + session["ttl_seconds"]
        return 200, {"session_id": session["session_id"], "expires_at": self._at(session["expires_at"])}

    def _session_info(self, session: dict[str, Any]) -> dict[str, Any]:
        held = sum(lock.session is session and lock.lease_id is not None for lock in self._locks.values())
        times = {field: self._at(session[field]) for field in ("created_at", "expires_at")}
        known = {field: session[field] for field in ("session_id", "owner", "metadata", "ttl_seconds", "active")}
        return {**known, **times, "lock_count": held}

    def _elections(self, request: httpx.Request, parts: list[str]) -> httpx.Response:
        """Without a token, in rooms apart from the locks."""
        if not parts:
            room = uuid.uuid4().hex
            return self._response(201, {"election_id": room, "status_path": f"/elections/{room}"})
        room, verb = parts[0], "".join(parts[1:])
        if verb == "watch":
            return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=self._room_events(room))
        body = json.loads(request.content or b"{}")
        with self._guard:
            lock, now = self._room(room), self._now()
            if verb == "campaign":
                key = request.headers.get("idempotency-key", uuid.uuid4().hex)
                if lock.lease_id is None:
                    lock.lease_id, lock.token = uuid.uuid4().hex, key
                    lock.owner, lock.metadata = self._field(body, "candidate_id", str), body.get("metadata")
                    lock.fencing_token = max(lock.fencing_token + 1, int(now * 1000))
                    lock.ttl, lock.expires_at = body.get("ttl_seconds") or 30, now + (body.get("ttl_seconds") or 30)
                leads = lock.token == key
                return self._response(200, self._leadership(room, "leader" if leads else "follower", with_token=leads))
            if not verb:
                return self._response(200, self._leadership(room, "leader" if lock.lease_id else "vacant"))
            if lock.lease_id is None or lock.lease_id != self._field(body, "leader_token", str):
                raise _Refused(404, Code.LEASE_NOT_CURRENT, "This token does not lead the room.")
            if verb == "renew":
                lock.expires_at = now + (body.get("ttl_seconds") or 30)
                return self._response(200, self._leadership(room, "leader", with_token=True))
            lock.lease_id = None
            return self._response(200, {"election_id": room, "status": "vacant", "previous_term": lock.fencing_token})

    def _room(self, room: str) -> _Lock:
        lock = self._rooms.setdefault(room, _Lock(room))
        if lock.expires_at <= self._now():
            lock.lease_id = None
        return lock

    def _leadership(self, room: str, status: str, *, with_token: bool = False) -> dict[str, Any]:
        lock = self._room(room)
        left = int((lock.expires_at - self._now()) * 1000) if lock.lease_id else 0
        leader = {"candidate_id": lock.owner, "metadata": lock.metadata, "term": lock.fencing_token}
        leader["expires_at"] = self._at(lock.expires_at)
        answer = {"election_id": room, "status": status, "leader": leader if lock.lease_id else None}
        secret = {"leader_token": lock.lease_id, "renew_after_ms": left // 2}
        return answer | (secret if with_token else {"retry_after_ms": left})

    async def _room_events(self, room: str) -> AsyncIterator[bytes]:
        before = None
        while True:
            with self._guard:
                lock = self._room(room)
                state = self._leadership(room, "leader" if lock.lease_id else "vacant")
            if (shown := json.dumps(state["leader"])) != before:
                before = shown
                yield f"event: state\ndata: {json.dumps(state)}\n\n".encode()
            await asyncio.sleep(POLL_SECONDS)

    def _watch(self, path: str, parameters: dict[str, str], after: str | None) -> httpx.Response:
        name = None if path == "/watch" else self._name(path)[0]
        prefix = parameters.get("prefix", "")

        def matches(one: str) -> bool:
            return one == name if name else one.startswith(prefix)

        async def stream() -> AsyncIterator[bytes]:
            position = int(after) if after else len(self._events)
            if not after:
                with self._guard:
                    self._expire()
                locks = [self._lock(name)] if name else [lock for lock in self._locks.values() if matches(lock.name)]
                infos = [self._info(lock) for lock in locks if name or lock.lease_id]
                snapshot = {"event": "snapshot", "locks": infos, "observed_at": self._at(self._now())}
                yield f"id: {position}\ndata: {json.dumps(snapshot)}\n\n".encode()
            while True:
                with self._guard:
                    self._expire()
                for event in self._events[position:]:
                    position += 1
                    if matches(event["lock_name"]):
                        told = {**event, "event": event["kind"], "observed_at": event["at"]}
                        yield f"id: {position}\ndata: {json.dumps(told)}\n\n".encode()
                await asyncio.sleep(POLL_SECONDS)

        return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=stream())
