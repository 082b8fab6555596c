"""Which addresses a delivery may go to: the public internet, and networks that the operator allows.

Without this check, a webhook could make this server send requests to hosts that only it can reach (SSRF).
"""

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Networks = Sequence[IPv4Network | IPv6Network]
Resolve = Callable[[str, int], list[Address]]

# The usual ports of HTTP. On networks that the operator allows, any port is allowed.
PORTS = frozenset({80, 443, 8080, 8443})

# IANA's registries of special-purpose addresses, besides those that Python's `is_global` knows: its list depends on its
# version.
_SPECIAL = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
            "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "255.255.255.255/32",
            "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001:db8::/32", "2002::/16",
            "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10",
        ),
    )
)  # fmt: skip
_NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))
_COMPATIBLE = ip_network("::/96")


class Forbidden(Exception):
    """Deliveries to this address are not allowed; the message says why, but nothing about the host."""


class Unresolvable(Exception):
    """The name has no address."""


def resolve(host: str, port: int) -> list[Address]:
    """By the system's resolver, once for each attempt: the address that is checked is the one that is used."""
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):
        raise Unresolvable(f"The name {host} has no address.") from None
    return list(dict.fromkeys(ip_address(str(address[0])) for *_, address in answers))


def choose(addresses: Sequence[Address], *, port: int, allowed: Networks) -> Address:
    """The first address. All must be allowed: a name that also has an internal one is refused."""
    if not addresses:
        raise Unresolvable("The name has no address.")
    for address in addresses:
        check(address, port=port, allowed=allowed)
    return addresses[0]


def check(address: Address, *, port: int, allowed: Networks) -> None:
    if any(_same_kind(address, network) and address in network for network in allowed):
        return
    if not all(_is_public(one) for one in (address, *_embedded(address))):
        raise Forbidden("The address is private, local or reserved; this server does not deliver there.")
    if port not in PORTS:
        raise Forbidden(f"Port {port} is not one of {', '.join(map(str, sorted(PORTS)))}.")


def _same_kind(address: Address, network: IPv4Network | IPv6Network) -> bool:
    return address.version == network.version


def _embedded(address: Address) -> list[IPv4Address]:
    """The IPv4 addresses that an IPv6 address may be translated to."""
    if isinstance(address, IPv4Address):
        return []
    embedded = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in (*_NAT64, _COMPATIBLE)):
        embedded.append(IPv4Address(int(address) & 0xFFFF_FFFF))
    return [inner for inner in embedded if inner is not None]


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address):
        # Python counts these as reserved or private; the IPv4 address inside is checked separately.
        if address.ipv4_mapped or any(address in network for network in (_NAT64[0], _COMPATIBLE)):
            return int(address) > 1
        if address.is_site_local:
            return False
    if any(_same_kind(address, network) and address in network for network in _SPECIAL):
        return False
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified or address.is_link_local
    )
