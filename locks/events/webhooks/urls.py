"""Parses and checks the URL of a webhook."""

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from locks.events.webhooks.ssrf import Forbidden, Networks, check

MAX_URL = 2000
_PORTS = {"http": 80, "https": 443}


class InvalidTarget(ValueError):
    """The message says what is wrong with the URL."""


@dataclass(frozen=True, kw_only=True)
class Target:
    scheme: str
    host: str
    port: int
    # With the query.
    path: str

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse_target(url: str, *, allowed: Networks) -> Target:
    """An IP address in it is checked here; a host name is resolved and checked at each attempt."""
    if len(url) > MAX_URL or not url.isascii() or any(letter <= " " or letter == "\x7f" for letter in url):
        raise InvalidTarget(f"url must be at most {MAX_URL} visible ASCII characters.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidTarget("url is not a valid URL.") from None
    if parts.scheme not in _PORTS:
        raise InvalidTarget("url must begin with https:// or http://.")
    if not parts.hostname or "%" in parts.netloc or "\\" in url:
        raise InvalidTarget("url must name a host.")
    if "@" in parts.netloc:
        raise InvalidTarget("url may not contain a user or a password: deliveries are signed instead.")
    if parts.fragment:
        raise InvalidTarget("url may not contain a fragment.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    target = Target(scheme=parts.scheme, host=parts.hostname, port=port or _PORTS[parts.scheme], path=path)
    try:
        address = ip_address(target.host)
    except ValueError:
        return target
    try:
        check(address, port=target.port, allowed=allowed)
    except Forbidden as forbidden:
        raise InvalidTarget(str(forbidden)) from None
    return target
