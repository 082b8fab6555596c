"""Which addresses a delivery may go to: the public internet, and networks that the operator allows.

Without this, whoever may create a webhook could have this server knock at doors that only it can reach.
"""

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Networks = Sequence[IPv4Network | IPv6Network]
Resolve = Callable[[str, int], list[Address]]

# Where people serve HTTP. On networks that the operator allows, any port will do.
PORTS = frozenset({80, 443, 8080, 8443})

_NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))
_COMPATIBLE = ip_network("::/96")


class Forbidden(Exception):
    """The address is none that may be delivered to; the message says why, without saying what is there."""


class Unresolvable(Exception):
    """The name has no address."""


def resolve(host: str, port: int) -> list[Address]:
    """What the system's resolver says. Asked once for each attempt: what it says later is never used."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):
        raise Unresolvable(f"The name {host} has no address.") from None
    return list(dict.fromkeys(ip_address(str(address[0])) for *_, address in found))


def choose(addresses: Sequence[Address], *, port: int, allowed: Networks) -> Address:
    """The first of them. All must be allowed: a name that also leads inside is not to be trusted with any."""
    if not addresses:
        raise Unresolvable("The name has no address.")
    for address in addresses:
        check(address, port=port, allowed=allowed)
    return addresses[0]


def check(address: Address, *, port: int, allowed: Networks) -> None:
    if any(_same_kind(address, network) and address in network for network in allowed):
        return
    if not all(_is_public(one) for one in (address, *_inside(address))):
        raise Forbidden("The address is private, local or reserved, which this server does not deliver to.")
    if port not in PORTS:
        raise Forbidden(f"Port {port} is none of {', '.join(map(str, sorted(PORTS)))}.")


def _same_kind(address: Address, network: IPv4Network | IPv6Network) -> bool:
    return address.version == network.version


def _inside(address: Address) -> list[IPv4Address]:
    """The IPv4 addresses that an IPv6 one may be turned into on its way."""
    if isinstance(address, IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in (*_NAT64, _COMPATIBLE)):
        found.append(IPv4Address(int(address) & 0xFFFF_FFFF))
    return [inner for inner in found if inner is not None]


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address):
        # Python takes these for reserved or private; what they lead to is checked by itself.
        if address.ipv4_mapped or any(address in network for network in (_NAT64[0], _COMPATIBLE)):
            return int(address) > 1
        if address.is_site_local or address in _NAT64[1]:
            return False
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified or address.is_link_local
    )
