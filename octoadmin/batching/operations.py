"""The hot calls: the engine request of each, by the same rules as in its view, and the response to its result."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from locks.api import responses, schemas
from locks.api.base_view import LockApiView
from locks.api.errors import ApiError
from locks.api.lease_options import lease_options
from locks.api.parsing import check_name, check_ttl, decoder
from locks.api.views import leases
from locks.engine import requests, statements
from locks.engine.names import VERBS, is_canonical
from locks.engine.statements import Statement
from locks.queue.singletons import wait_queue
from octoadmin.batching.head import Fallback, Reason, RequestHead

_ROOT = b"/locks/"
_VERBS = frozenset(verb.encode() for verb in VERBS)

_encode = msgspec.json.Encoder().encode
_ACQUIRE = decoder(schemas.AcquireBody)
_RENEW = decoder(schemas.RenewBody)
_RELEASE = decoder(schemas.ReleaseBody)


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
            return self.to_request(check_name(name, dict), head, request_id, body)
        except (ApiError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Fallback(Reason.VALUES) from None

    def response(self, result: Any) -> tuple[int, bytes]:
        """Raises ApiError."""
        status, message = self.to_message(result)
        return status, _encode(message)


def _acquire(name: str, head: RequestHead, request_id: str, body: bytes) -> tuple[Any, int]:
    message = _ACQUIRE.decode(body or b"{}")
    wait_options = wait_queue.wait_options(message.wait_seconds) if message.wait_seconds else {}
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


ACQUIRE = Operation("acquire", "POST", leases.AcquireView, statements.ACQUIRE, _acquire, _acquired)
RENEW = Operation("renew", "POST", leases.RenewView, statements.RENEW, _renew, _renewed)
RELEASE = Operation("release", "POST", leases.ReleaseView, statements.RELEASE, _release, _released)
INSPECT = Operation("inspect", "GET", leases.LockView, statements.INSPECT, _inspect, _inspected)
OPERATIONS = (ACQUIRE, RENEW, RELEASE, INSPECT)
_POSTED = {operation.name.encode(): operation for operation in OPERATIONS if operation.method == "POST"}


def find_operation(method: str, raw_path: bytes) -> tuple[Operation, bytes] | None:
    """The operation, and the lock name as it was sent."""
    if not raw_path.startswith(_ROOT):
        return None
    if method == "POST":
        name, _, last = raw_path[len(_ROOT) :].rpartition(b"/")
        operation = _POSTED.get(last)
        return (operation, name) if operation is not None and name else None
    if method == "GET":
        return INSPECT, raw_path[len(_ROOT) :]
    return None
