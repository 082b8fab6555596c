"""The hot calls: the engine request of each, by the same rules as in its view, and the response to its result."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes
from uuid import UUID

import msgspec

from locks.api import responses, schemas
from locks.api.base_view import LockApiView
from locks.api.errors import ApiError
from locks.api.lease_options import lease_options
from locks.api.parsing import check_name, check_ttl, decoder
from locks.api.run_names import actor_stored_name
from locks.api.views import kv as store
from locks.api.views import leases, sessions
from locks.engine import requests, statements
from locks.engine.names import VERBS, is_canonical
from locks.engine.statements import Statement
from locks.queue.singletons import wait_queue
from locks.runs import kv
from locks.runs.identities import Identity, known_identity
from locks.runs.kv_paths import AccessDenied, InvalidPath, KvPath, check_access, parse_path
from locks.runs.names import PREFIXES
from octoadmin.batching.head import Fallback, Reason, RequestHead

_ROOT = b"/locks/"
_STORE_ROOT = b"/kv/"
_KEEPALIVE = re.compile(rb"/sessions/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/keepalive")
_VERBS = frozenset(verb.encode() for verb in VERBS)

_encode = msgspec.json.Encoder().encode
_ACQUIRE = decoder(schemas.AcquireBody)
_RENEW = decoder(schemas.RenewBody)
_RELEASE = decoder(schemas.ReleaseBody)
_PUT_ENTRY = decoder(store.PutBody)


@dataclass(frozen=True, slots=True)
class Operation:
    """`to_request` makes the engine request and the seconds that it may wait; `to_message` makes status and message of
    an engine result, or raises ApiError."""

    name: str
    method: str
    view: type[LockApiView]
    statement: Statement[Any]
    to_request: Callable[[str, RequestHead, str, bytes], tuple[Any, int]]
    to_message: Callable[[Any], tuple[int, Any]]

    def request(self, raw_name: bytes, head: RequestHead, request_id: str, body: bytes) -> tuple[Any, int]:
        """Raises Fallback."""
        if raw_name.rpartition(b"/")[2] in _VERBS:
            raise Fallback(Reason.VALUES)
        try:
            name = (unquote_to_bytes(raw_name) if b"%" in raw_name else raw_name).decode()
            if not is_canonical(name):
                raise Fallback(Reason.VALUES)
            return self.to_request(_stored_name(check_name(name, dict), head), head, request_id, body)
        except (ApiError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Fallback(Reason.VALUES) from None

    def response(self, result: Any) -> tuple[int, bytes]:
        """Raises ApiError."""
        status, message = self.to_message(result)
        return status, _encode(message)


def _stored_name(name: str, head: RequestHead) -> str:
    """Of an actor that this process knows. Django looks up the others, and refuses those that are none."""
    if not name.startswith(PREFIXES):
        return name
    actor = known_identity(head.token.digest)
    if actor is None:
        raise Fallback(Reason.VALUES)
    return actor_stored_name(actor, name)


def _acquire(name: str, head: RequestHead, request_id: str, body: bytes) -> tuple[Any, int]:
    message = _ACQUIRE.decode(body or b"{}")
    if message.acl is not None:
        # The names in it are looked up first.
        raise Fallback(Reason.VALUES)
    wait_options = wait_queue.arrival_options(message.wait_seconds) if message.wait_seconds else {}
    request = requests.Acquire(
        digest=head.token.hex_digest,
        request_id=request_id,
        address=head.address,
        name=name,
        **lease_options(message, idempotency_key=head.idempotency_key),
        **wait_options,
    )
    return request, message.wait_seconds or 0


def _renew(name: str, head: RequestHead, request_id: str, body: bytes) -> tuple[Any, int]:
    message = _RENEW.decode(body)
    request = requests.Renew(
        digest=head.token.hex_digest,
        request_id=request_id,
        address=head.address,
        name=name,
        lease_id=message.lease_id,
        ttl_seconds=check_ttl(message.ttl_seconds),
    )
    return request, 0


def _release(name: str, head: RequestHead, request_id: str, body: bytes) -> tuple[Any, int]:
    request = requests.Release(
        digest=head.token.hex_digest,
        request_id=request_id,
        address=head.address,
        name=name,
        lease_id=_RELEASE.decode(body).lease_id,
    )
    return request, 0


def _inspect(name: str, head: RequestHead, request_id: str, body: bytes) -> tuple[Any, int]:
    request = requests.Inspect(digest=head.token.hex_digest, request_id=request_id, address=head.address, name=name)
    return request, 0


def _acquired(result: Any) -> tuple[int, Any]:
    message = responses.acquired(result)
    return responses.status_of(message), message


def _renewed(result: Any) -> tuple[int, Any]:
    return 200, responses.renewed(result)


def _released(result: Any) -> tuple[int, Any]:
    responses.check_released(result)
    return 200, None


def _inspected(result: Any) -> tuple[int, Any]:
    return 200, responses.inspected(result)


class StoreOperation(Operation):
    """Of the store of an actor's layer. `raw_name` is the path, with its first slash."""

    def request(self, raw_name: bytes, head: RequestHead, request_id: str, body: bytes) -> tuple[Any, int]:
        actor = known_identity(head.token.digest)
        if actor is None or b"%" in raw_name:
            raise Fallback(Reason.VALUES)
        try:
            path = parse_path(raw_name.decode(), caller=actor.name)
            return self._to_request(actor, path, head, request_id, body), 0
        except (ApiError, InvalidPath, AccessDenied, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Fallback(Reason.VALUES) from None

    def _to_request(self, actor: Identity, path: KvPath, head: RequestHead, request_id: str, body: bytes) -> Any:
        caller: dict[str, Any] = {"digest": head.token.hex_digest, "request_id": request_id, "address": head.address}
        if self.method == "GET":
            check_access(actor, path, action="read")
            return kv.KvGet(path=path.text, **caller)
        message = _PUT_ENTRY.decode(body)
        check_access(actor, path, action="write", override=message.override)
        return store.put_request(path, message, **caller)


def _found(result: Any) -> tuple[int, Any]:
    responses.raise_api_error(result, scope="locks:read")
    return 200, store.entry(result)


def _written(result: Any) -> tuple[int, Any]:
    responses.raise_api_error(result, scope="locks:write")
    return 200, store.written(result)


class SessionOperation(Operation):
    """`raw_name` is the id of a session."""

    def request(self, raw_name: bytes, head: RequestHead, request_id: str, body: bytes) -> tuple[Any, int]:
        session_id = UUID(raw_name.decode())
        request = requests.SessionRef(
            digest=head.token.hex_digest, request_id=request_id, address=head.address, session_id=session_id
        )
        return request, 0


def _kept_alive(result: Any) -> tuple[int, Any]:
    return 200, responses.session_kept_alive(result)


def _no_lock(name: str, head: RequestHead, request_id: str, body: bytes) -> tuple[Any, int]:
    raise Fallback(Reason.VALUES)


ACQUIRE = Operation("acquire", "POST", leases.AcquireView, statements.ACQUIRE, _acquire, _acquired)
RENEW = Operation("renew", "POST", leases.RenewView, statements.RENEW, _renew, _renewed)
RELEASE = Operation("release", "POST", leases.ReleaseView, statements.RELEASE, _release, _released)
INSPECT = Operation("inspect", "GET", leases.LockView, statements.INSPECT, _inspect, _inspected)
GET_ENTRY = StoreOperation("get_entry", "GET", store.EntryView, kv.GET, _no_lock, _found)
PUT_ENTRY = StoreOperation("put_entry", "PUT", store.EntryView, kv.PUT, _no_lock, _written)
KEEP_ALIVE = SessionOperation(
    "keep_alive", "POST", sessions.KeepaliveView, statements.KEEP_ALIVE, _no_lock, _kept_alive
)
OPERATIONS = (ACQUIRE, RENEW, RELEASE, INSPECT, GET_ENTRY, PUT_ENTRY, KEEP_ALIVE)
_STORE = {operation.method: operation for operation in (GET_ENTRY, PUT_ENTRY)}
_POSTED = {operation.name.encode(): operation for operation in (ACQUIRE, RENEW, RELEASE)}


def find_operation(method: str, raw_path: bytes) -> tuple[Operation, bytes] | None:
    """The operation, and the lock name, the path of an entry or the id of a session as it was sent."""
    if not raw_path.startswith(_ROOT):
        if raw_path.startswith(_STORE_ROOT) and method in _STORE:
            return _STORE[method], raw_path[len(_STORE_ROOT) - 1 :]
        if method == "POST" and (match := _KEEPALIVE.fullmatch(raw_path)):
            return KEEP_ALIVE, match[1]
        return None
    if method == "POST":
        name, _, last = raw_path[len(_ROOT) :].rpartition(b"/")
        operation = _POSTED.get(last)
        return (operation, name) if operation is not None and name else None
    if method == "GET":
        return INSPECT, raw_path[len(_ROOT) :]
    return None
