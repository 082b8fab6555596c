"""From a request's head to what the hot calls need of it; or NotPlain, and then the sync lane reads it anew."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from locks import token_format
from octoadmin.serving.asgi_types import Headers, Scope
from octoadmin.serving.proxies import client_address, client_scheme

MAX_KNOWN_TOKENS = 10_000
# Of the hot calls nearly all are far smaller. What is larger, the sync lane keeps on its budget while it arrives.
MAX_PLAIN_BODY = 8 * 1024
# What is remembered below is what many say alike. A stranger may say something else each time, at length.
MAX_REMEMBERED = 256
MAX_REMEMBERED_HEADERS = 32
_BEARER = b"Bearer "
# Headers that have a say in the answer. A second one of the same name is for Django to make sense of.
_HEADERS = frozenset(
    {
        b"authorization", b"content-type", b"cookie", b"host", b"idempotency-key", b"transfer-encoding", b"user-agent",
        b"x-forwarded-for", b"x-forwarded-proto",
    }
)  # fmt: skip
_JSON = frozenset({b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8"})


class Reason(StrEnum):
    """Why a request was left to the sync lane."""

    HEADERS = "headers"
    HOST = "host"
    TOKEN = "token"  # noqa: S105
    LIMIT = "limit"
    BODY = "body"
    VALUES = "values"
    SETTLE = "settle"
    STATEMENT = "statement"


class NotPlain(Exception):
    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A token whose form and checksum are right, without the plaintext."""

    public_id: str
    digest: bytes
    hex_digest: str


@dataclass(slots=True)
class Envelope:
    """All of a request but its path and body, and the headers that say so."""

    headers: Headers
    token: KnownToken
    address: str | None
    secure: bool
    agent: str
    idempotency_key: str | None
    is_json: bool


def open_envelope(scope: Scope, last: Envelope | None = None) -> tuple[Envelope, int]:
    """Of a scope whose method and path are not known yet, and how long the body is. `last` is the same connection's
    one before: who stays says the same again, but for the length. Raises NotPlain."""
    headers = scope["headers"]
    lengths = [value for name, value in headers if name == b"content-length"]
    if lengths:
        headers = [header for header in headers if header[0] != b"content-length"]
    length = _number(lengths)
    envelope = last if last is not None and last.headers == headers else _read(scope, headers)
    if length and not envelope.is_json:
        raise NotPlain(Reason.BODY)
    return envelope, length


def _number(lengths: list[bytes]) -> int:
    if not lengths:
        return 0
    if len(lengths) > 1 or len(lengths[0]) > 5 or not lengths[0].isdigit() or int(lengths[0]) > MAX_PLAIN_BODY:
        raise NotPlain(Reason.BODY)
    return int(lengths[0])


def _read(scope: Scope, headers: Headers) -> Envelope:
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _HEADERS:
            if name in found:
                raise NotPlain(Reason.HEADERS)
            found[name] = value
    # Who brings a session along gets it renewed, or taken away.
    if b"transfer-encoding" in found or b"cookie" in found:
        raise NotPlain(Reason.HEADERS)
    host, forwarded_for, proto = found.get(b"host", b""), found.get(b"x-forwarded-for"), found.get(b"x-forwarded-proto")
    if len(host) > MAX_REMEMBERED or not _is_ours(host):
        raise NotPlain(Reason.HOST)
    if len(forwarded_for or b"") > MAX_REMEMBERED or len(proto or b"") > MAX_REMEMBERED:
        raise NotPlain(Reason.HEADERS)
    client = scope.get("client")
    address, secure = _sender(client[0] if client else None, scope["scheme"], forwarded_for, proto)
    key = found.get(b"idempotency-key")
    return Envelope(
        headers,
        _token(found.get(b"authorization", b"")),
        address,
        secure,
        found.get(b"user-agent", b"").decode("latin-1"),
        None if key is None else key.decode("latin-1"),
        found.get(b"content-type") in _JSON,
    )


_tokens: dict[bytes, KnownToken] = {}


def _token(authorization: bytes) -> KnownToken:
    """Remembered by digest: who presents the same digest again presented the same token, whose checksum was right."""
    if not authorization.startswith(_BEARER):
        raise NotPlain(Reason.TOKEN)
    text = authorization[len(_BEARER) :]
    digest = hashlib.sha256(text).digest()
    known = _tokens.get(digest)
    if known is None:
        presented = token_format.parse(text.decode("latin-1"))
        if presented is None:
            raise NotPlain(Reason.TOKEN)
        if len(_tokens) >= MAX_KNOWN_TOKENS:
            _tokens.clear()
        known = _tokens[digest] = KnownToken(presented.public_id, presented.digest, presented.digest.hex())
    return known


@lru_cache(maxsize=1024)
def _is_ours(host: bytes) -> bool:
    """As Django's get_host() decides it."""
    domain, _port = split_domain_port(host.decode("latin-1"))
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


@lru_cache(maxsize=4096)
def _sender(peer: str | None, scheme: str, forwarded_for: bytes | None, proto: bytes | None) -> tuple[str | None, bool]:
    trusted = settings.TRUSTED_PROXIES
    address = client_address(peer=peer, forwarded_for=_text(forwarded_for), trusted=trusted)
    return address, client_scheme(peer=peer, scheme=scheme, forwarded_proto=_text(proto), trusted=trusted) == "https"


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
