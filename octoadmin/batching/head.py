"""Parses the head of a hot call. Anything unusual raises Fallback, and Django handles the whole request."""

import hashlib
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from locks import token_format
from locks.api.authentication import check_credentials
from locks.api.errors import ApiError
from octoadmin.http.asgi_types import Scope
from octoadmin.http.proxies import client_address, client_scheme

MAX_KNOWN_TOKENS = 10_000
# Nearly all hot calls are far smaller. The WSGI bridge has a memory budget for larger bodies.
MAX_BODY = 8 * 1024
# Longer header values are not cached: clients may send a different one each time.
MAX_CACHED_VALUE = 256
_BEARER = b"Bearer "
# Headers that influence the response. Django handles requests that repeat one.
_HEADERS = frozenset(
    {
        b"authorization", b"content-length", b"content-type", b"cookie", b"host", b"idempotency-key",
        b"transfer-encoding", b"user-agent", b"x-forwarded-for", b"x-forwarded-proto",
    }
)  # fmt: skip
_JSON = frozenset({b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8"})


class Reason(StrEnum):
    """Why a request fell back to Django."""

    HEADERS = "headers"
    HOST = "host"
    TOKEN = "token"  # noqa: S105 -- a label of a metric
    BODY = "body"
    VALUES = "values"
    STATEMENT = "statement"


class Fallback(Exception):
    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class Unauthenticated(Exception):
    """No token, or one that cannot be valid."""

    def __init__(self, error: ApiError, *, secure: bool) -> None:
        super().__init__(error)
        self.error = error
        self.secure = secure


class KnownToken(NamedTuple):
    """A token whose format and checksum are right, without the plaintext."""

    public_id: str
    digest: bytes
    hex_digest: str


class RequestHead(NamedTuple):
    token: KnownToken
    address: str | None
    secure: bool
    user_agent: str
    idempotency_key: str | None
    content_length: int


def parse_head(scope: Scope) -> RequestHead:
    """Raises Fallback and Unauthenticated."""
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _HEADERS:
            if name in found:
                raise Fallback(Reason.HEADERS)
            found[name] = value
    get = found.get
    # Django renews or removes the session of a request with a cookie.
    if b"transfer-encoding" in found or b"cookie" in found:
        raise Fallback(Reason.HEADERS)
    host, forwarded_for, proto = get(b"host", b""), get(b"x-forwarded-for"), get(b"x-forwarded-proto")
    if len(host) > MAX_CACHED_VALUE or not _is_allowed(host):
        raise Fallback(Reason.HOST)
    if len(forwarded_for or b"") > MAX_CACHED_VALUE or len(proto or b"") > MAX_CACHED_VALUE:
        raise Fallback(Reason.HEADERS)
    client = scope["client"]
    address, secure = _sender(client[0] if client else None, scope["scheme"], forwarded_for, proto)
    key = get(b"idempotency-key")
    length = get(b"content-length")
    content_length = 0 if length is None else _content_length(length)
    if content_length and get(b"content-type") not in _JSON:
        raise Fallback(Reason.BODY)
    authorization = get(b"authorization", b"")
    token = _token(authorization)
    if token is None:
        try:
            check_credentials(authorization.decode("latin-1"), address)
        except ApiError as error:
            raise Unauthenticated(error, secure=secure) from None
        # The scheme or the spaces are unusual.
        raise Fallback(Reason.TOKEN)
    return RequestHead(
        token,
        address,
        secure,
        get(b"user-agent", b"").decode("latin-1"),
        None if key is None else key.decode("latin-1"),
        content_length,
    )


def _content_length(value: bytes) -> int:
    if len(value) > 5 or not value.isdigit() or int(value) > MAX_BODY:
        raise Fallback(Reason.BODY)
    return int(value)


_tokens: dict[bytes, KnownToken] = {}


def _token(authorization: bytes) -> KnownToken | None:
    """Cached by digest: the same digest means the same token, whose checksum was right."""
    if not authorization.startswith(_BEARER):
        return None
    text = authorization[len(_BEARER) :]
    digest = hashlib.sha256(text).digest()
    known = _tokens.get(digest)
    if known is None:
        presented = token_format.parse(text.decode("latin-1"))
        if presented is None:
            return None
        if len(_tokens) >= MAX_KNOWN_TOKENS:
            _tokens.clear()
        known = _tokens[digest] = KnownToken(presented.public_id, presented.digest, presented.digest.hex())
    return known


@lru_cache(maxsize=1024)
def _is_allowed(host: bytes) -> bool:
    """The rule of Django's get_host()."""
    domain, _port = split_domain_port(host.decode("latin-1"))
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


@lru_cache(maxsize=4096)
def _sender(peer: str | None, scheme: str, forwarded_for: bytes | None, proto: bytes | None) -> tuple[str | None, bool]:
    trusted = settings.TRUSTED_PROXIES
    address = client_address(peer=peer, forwarded_for=_text(forwarded_for), trusted=trusted)
    return address, client_scheme(peer=peer, scheme=scheme, forwarded_proto=_text(proto), trusted=trusted) == "https"


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
