"""Which addresses count as one client."""

from functools import lru_cache
from ipaddress import ip_address, ip_network


@lru_cache(maxsize=4096)
def network_of(address: str | None) -> str:
    """One subscriber: an IPv4 address, or the /64 network of an IPv6 address."""
    if address is None:
        return "unknown"
    ip = ip_address(address)
    return str(ip_network((ip, 64), strict=False) if ip.version == 6 else ip)
