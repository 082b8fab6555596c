"""An ASGI scope as the environ that Django's WSGI handler reads."""

import sys
from functools import lru_cache
from io import BytesIO
from typing import Any
from urllib.parse import unquote_to_bytes

from locks.api.errors import invalid_input
from octoadmin.http.asgi_types import Scope
from octoadmin.http.proxies import Networks, client_address, client_scheme
from octoadmin.http.request_log import REQUEST_ID

Environ = dict[str, Any]
# Longer header names are not cached: clients may send a different one each time.
MAX_CACHED_NAME = 64

_FROM_PROXIES = frozenset({"HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO"})
_CONSTANT: Environ = {
    "SCRIPT_NAME": "",
    "wsgi.version": (1, 0),
    "wsgi.errors": sys.stderr,
    "wsgi.multithread": True,
    "wsgi.multiprocess": True,
    "wsgi.run_once": False,
}


def environ_of(scope: Scope, *, request_id: str, trusted_proxies: Networks) -> Environ:
    """Everything but the body, which `attach_body` adds. Raises ApiError."""
    raw_path: bytes = scope["raw_path"]
    environ = {
        **_CONSTANT,
        REQUEST_ID: request_id,
        "REQUEST_METHOD": scope["method"],
        # RAW_URI tells `%2F` and `/` apart.
        "PATH_INFO": _decoded(raw_path),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "RAW_URI": raw_path.decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        # Not the server's address: Django would take it for the host of requests without a Host header.
        "SERVER_NAME": "",
        "SERVER_PORT": "",
    }
    # uvicorn adds the trailers of a chunked body to the headers. No proxy has checked those.
    has_trailers = any(name == b"transfer-encoding" for name, _ in scope["headers"])
    for name, value in scope["headers"]:
        key = _cached_key(name) if len(name) <= MAX_CACHED_NAME else _key(name)
        if key is None:
            continue
        if key in environ:
            if key in _FROM_PROXIES and has_trailers:
                raise invalid_input(400, "Send each X-Forwarded header once with a chunked body.")
            separator = "; " if key == "HTTP_COOKIE" else ","
            environ[key] = f"{environ[key]}{separator}{value.decode('latin-1')}"
        else:
            environ[key] = value.decode("latin-1")
    client = scope.get("client")
    peer = client[0] if client else None
    forwarded_for = environ.get("HTTP_X_FORWARDED_FOR")
    address = client_address(peer=peer, forwarded_for=forwarded_for, trusted=trusted_proxies)
    if address is not None:
        environ["REMOTE_ADDR"] = address
    environ["wsgi.url_scheme"] = client_scheme(
        peer=peer,
        scheme=scope["scheme"],
        forwarded_proto=environ.get("HTTP_X_FORWARDED_PROTO"),
        trusted=trusted_proxies,
    )
    return environ


def attach_body(environ: Environ, body: bytes) -> None:
    # What has arrived, whatever the header said: Django reads no further than this.
    environ["CONTENT_LENGTH"] = str(len(body))
    environ["wsgi.input"] = BytesIO(body)


def _decoded(raw_path: bytes) -> str:
    """As WSGI specifies it. Django handles bytes that are not UTF-8: it shows them percent-encoded."""
    path = unquote_to_bytes(raw_path) if b"%" in raw_path else raw_path
    return path.decode("latin-1")


def _key(name: bytes) -> str | None:
    """The header's key in the environ. A name with an underscore could pass for another header, so it is dropped."""
    if b"_" in name:
        return None
    key = name.decode("latin-1").upper().replace("-", "_")
    return key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"


_cached_key = lru_cache(maxsize=512)(_key)
