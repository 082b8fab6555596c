"""The client's address and scheme behind reverse proxies.

X-Forwarded headers count only if they come from a proxy in TRUSTED_PROXIES: any client can send them.
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
    """The nearest address that is not a trusted proxy's, in the form of Postgres' `inet`; None if unknown.

    Each proxy appends the address that it got the request from, so only the hops right of the first untrusted one are
    reliable.
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


# Including brackets, zone and port.
_MAX_HOP = 128


def _address(text: str) -> Address | None:
    """Longer texts are no addresses, and would fill the cache: a client may send a different one each time."""
    return _read_address(text) if len(text) <= _MAX_HOP else None


@lru_cache(maxsize=1024)
def _read_address(text: str) -> Address | None:
    """The address in a hop, with or without brackets and port; an IPv4 one inside IPv6 comes out as IPv4."""
    hop = _HOP.fullmatch(text)
    if hop is None:
        return None
    try:
        # The zone of a link-local address has a meaning on this machine only; Postgres does not accept it.
        address = ip_address(hop[hop.lastindex or 0].partition("%")[0])
    except ValueError:
        return None
    return (address.version == 6 and address.ipv4_mapped) or address
