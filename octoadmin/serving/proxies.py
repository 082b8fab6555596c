"""Who is asking, and over which scheme, when reverse proxies stand in between.

What a proxy says is believed only if the proxy is in TRUSTED_PROXIES; anybody can send X-Forwarded headers.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Literal

Address = IPv4Address | IPv6Address
Networks = Sequence[IPv4Network | IPv6Network]
Scheme = Literal["http", "https"]


def client_address(*, peer: str | None, forwarded_for: str | None, trusted: Networks) -> str | None:
    """The nearest address that is not a trusted proxy's, as Postgres' `inet` reads it; None if unknown.

    Each proxy appends whom it heard from, so only what stands right of the first untrusted hop is known.
    """
    address = _address(peer or "")
    if forwarded_for:
        for hop in reversed(forwarded_for.split(",")):
            if not _is_trusted(address, trusted) or (before := _address(hop.strip())) is None:
                break
            address = before
    return None if address is None else str(address)


def client_scheme(*, peer: str | None, scheme: str, forwarded_proto: str | None, trusted: Networks) -> Scheme:
    """The scheme that the client used. Of several values the last is the one our own proxy wrote."""
    if forwarded_proto and _is_trusted(_address(peer or ""), trusted):
        match forwarded_proto.rpartition(",")[2].strip().lower():
            case "https":
                return "https"
            case "http":
                return "http"
    return "https" if scheme == "https" else "http"


def _is_trusted(address: Address | None, trusted: Networks) -> bool:
    return address is not None and any(address in network for network in trusted)


# `[::1]`, `[::1]:80` · `1.2.3.4`, `1.2.3.4:80` · `::1`
_HOP = re.compile(r"\[([^\[\]]+)\](?::\d+)?|([^:\[\]]+)(?::\d+)?|([^\[\]]+)")


# With brackets, zone and port.
_MAX_HOP = 128


def _address(text: str) -> Address | None:
    """What is longer is none, and is not remembered either: a stranger may send something else each time."""
    return _read_address(text) if len(text) <= _MAX_HOP else None


@lru_cache(maxsize=1024)
def _read_address(text: str) -> Address | None:
    """The address in a hop, with or without brackets and port; an IPv4 one inside IPv6 comes out as IPv4."""
    hop = _HOP.fullmatch(text)
    if hop is None:
        return None
    try:
        # The zone of a link-local address means nothing to anybody else, Postgres included.
        address = ip_address(hop[hop.lastindex or 0].partition("%")[0])
    except ValueError:
        return None
    return (address.version == 6 and address.ipv4_mapped) or address
