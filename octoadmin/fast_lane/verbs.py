"""The hot calls: what each asks of the engine, by the same rules as its view, and how its outcome is answered."""

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
from locks.engine.statements import Statement
from octoadmin.fast_lane.reading import Envelope, NotPlain, Reason

_ROOT = b"/locks/"

_encode = msgspec.json.Encoder().encode
_ACQUIRE = decoder(schemas.AcquireBody)
_RENEW = decoder(schemas.RenewBody)
_RELEASE = decoder(schemas.ReleaseBody)


@dataclass(frozen=True, slots=True)
class Verb:
    """`ask` makes an engine request of a name, the caller and the body, and says how long it may wait; `answer` makes
    status and message of an outcome, or raises ApiError."""

    name: str
    method: str
    view: type[LockApiView]
    statement: Statement[Any]
    ask: Callable[[str, Envelope, str, bytes], tuple[Any, int]]
    answer: Callable[[Any], tuple[int, Any]]

    def asked(self, raw_name: bytes, envelope: Envelope, request_id: str, body: bytes) -> tuple[Any, int]:
        """Raises NotPlain."""
        try:
            name = (unquote_to_bytes(raw_name) if b"%" in raw_name else raw_name).decode()
            return self.ask(check_name(name), envelope, request_id, body)
        except (ApiError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise NotPlain(Reason.VALUES) from None

    def answered(self, outcome: Any) -> tuple[int, bytes]:
        """Raises ApiError."""
        status, message = self.answer(outcome)
        return status, _encode(message)


def _acquire(name: str, envelope: Envelope, request_id: str, body: bytes) -> tuple[Any, int]:
    message = _ACQUIRE.decode(body or b"{}")
    asked = requests.Acquire(
        digest=envelope.token.hex_digest,
        request_id=request_id,
        address=envelope.address,
        name=name,
        **lease_options(message, idempotency_key=envelope.idempotency_key),
    )
    return asked, message.wait_seconds or 0


def _renew(name: str, envelope: Envelope, request_id: str, body: bytes) -> tuple[Any, int]:
    message = _RENEW.decode(body)
    asked = requests.Renew(
        digest=envelope.token.hex_digest,
        request_id=request_id,
        address=envelope.address,
        name=name,
        lease_id=message.lease_id,
        ttl_seconds=check_ttl(message.ttl_seconds),
    )
    return asked, 0


def _release(name: str, envelope: Envelope, request_id: str, body: bytes) -> tuple[Any, int]:
    asked = requests.Release(
        digest=envelope.token.hex_digest,
        request_id=request_id,
        address=envelope.address,
        name=name,
        lease_id=_RELEASE.decode(body).lease_id,
    )
    return asked, 0


def _inspect(name: str, envelope: Envelope, request_id: str, body: bytes) -> tuple[Any, int]:
    asked = requests.Inspect(
        digest=envelope.token.hex_digest, request_id=request_id, address=envelope.address, name=name
    )
    return asked, 0


def _acquired(outcome: Any) -> tuple[int, Any]:
    message = responses.acquired(outcome)
    return responses.status_of(message), message


def _renewed(outcome: Any) -> tuple[int, Any]:
    return 200, responses.renewed(outcome)


def _released(outcome: Any) -> tuple[int, Any]:
    responses.check_released(outcome)
    return 200, None


def _inspected(outcome: Any) -> tuple[int, Any]:
    return 200, responses.inspected(outcome)


ACQUIRE = Verb("acquire", "POST", leases.AcquireView, statements.ACQUIRE, _acquire, _acquired)
RENEW = Verb("renew", "POST", leases.RenewView, statements.RENEW, _renew, _renewed)
RELEASE = Verb("release", "POST", leases.ReleaseView, statements.RELEASE, _release, _released)
INSPECT = Verb("inspect", "GET", leases.LockView, statements.INSPECT, _inspect, _inspected)
VERBS = (ACQUIRE, RENEW, RELEASE, INSPECT)
_POSTED = {verb.name.encode(): verb for verb in VERBS if verb.method == "POST"}


def verb_of(method: str, raw_path: bytes) -> tuple[Verb, bytes] | None:
    """What is asked, and the name as it was sent."""
    if not raw_path.startswith(_ROOT):
        return None
    if method == "POST":
        name, _, last = raw_path[len(_ROOT) :].rpartition(b"/")
        verb = _POSTED.get(last)
        return (verb, name) if verb is not None and name else None
    if method == "GET":
        return INSPECT, raw_path[len(_ROOT) :]
    return None
