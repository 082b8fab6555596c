"""A request's address and scheme, and which proxies may set them."""

import tracemalloc
from ipaddress import ip_network

import pytest

from octoadmin.batching.head import Fallback, parse_head
from octoadmin.http.proxies import client_address, client_scheme
from octoadmin.wsgi_bridge.environ import environ_of

TRUSTED = [ip_network("10.0.0.0/8"), ip_network("2001:db8:1::/48")]
PROXY = "10.0.0.1"
UNTRUSTED = "198.51.100.9"


def address(peer: str | None, forwarded_for: str | None = None) -> str | None:
    return client_address(peer=peer, forwarded_for=forwarded_for, trusted=TRUSTED)


def scheme(peer: str, forwarded_proto: str | None, *, own: str = "http") -> str:
    return client_scheme(peer=peer, scheme=own, forwarded_proto=forwarded_proto, trusted=TRUSTED)


def test_without_a_proxy_the_peer_is_the_client() -> None:
    assert address(UNTRUSTED) == UNTRUSTED


def test_an_untrusted_peer_cannot_set_address_and_scheme() -> None:
    assert address(UNTRUSTED, "203.0.113.5") == UNTRUSTED
    assert scheme(UNTRUSTED, "https") == "http"


def test_without_trusted_proxies_forwarded_headers_are_ignored() -> None:
    assert client_address(peer="127.0.0.1", forwarded_for="203.0.113.5", trusted=[]) == "127.0.0.1"


def test_a_trusted_proxy_sets_address_and_scheme() -> None:
    assert address(PROXY, "203.0.113.5") == "203.0.113.5"
    assert scheme(PROXY, "https") == "https"


def test_the_first_untrusted_hop_is_the_client() -> None:
    assert address(PROXY, "203.0.113.5, 10.9.9.9, 10.8.8.8") == "203.0.113.5"


def test_hops_left_of_the_client_are_ignored() -> None:
    assert address(PROXY, "127.0.0.1, 1.1.1.1, 203.0.113.5, 10.9.9.9") == "203.0.113.5"


def test_in_a_chain_of_trusted_proxies_only_the_farthest_counts() -> None:
    assert address(PROXY, "10.1.1.1, 10.2.2.2") == "10.1.1.1"


@pytest.mark.parametrize(
    ("hop", "expected"),
    [
        ("203.0.113.5:4711", "203.0.113.5"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("[2001:db8::7]:443", "2001:db8::7"),
        ("2001:DB8:0::7", "2001:db8::7"),
        ("::ffff:203.0.113.5", "203.0.113.5"),
        ("[::ffff:203.0.113.5]:80", "203.0.113.5"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
def test_all_notations_of_an_address_are_parsed(hop: str, expected: str) -> None:
    assert address(PROXY, hop) == expected


@pytest.mark.parametrize(
    "garbage",
    ["", " ", ",", "unknown", "_hidden", "999.1.1.1", "[::1", "::1]", "1.2.3.4:x", "'; DROP", "é", "%"],
)
def test_an_invalid_hop_leaves_the_proxy_as_the_client(garbage: str) -> None:
    assert address(PROXY, garbage) == PROXY


def test_a_proxy_with_a_mapped_address_is_recognised() -> None:
    assert address("::ffff:10.0.0.1", "203.0.113.5") == "203.0.113.5"


@pytest.mark.parametrize("peer", [None, "", "/run/octoadmin.sock", "not an address"])
def test_a_peer_without_an_address_is_unknown_and_not_trusted(peer: str | None) -> None:
    assert address(peer, "203.0.113.5") is None


@pytest.mark.parametrize("garbage", ["", "ftp", "https;", "javascript", "https,"])
def test_an_unknown_scheme_is_ignored(garbage: str) -> None:
    assert scheme(PROXY, garbage) == "http"
    assert scheme(PROXY, garbage, own="https") == "https"


def test_of_several_schemes_the_last_counts() -> None:
    assert scheme(PROXY, "https, http") == "http"
    assert scheme(PROXY, "http, HTTPS ") == "https"


def test_a_trusted_proxy_can_report_plain_http() -> None:
    assert scheme(PROXY, "http", own="https") == "http"


def test_long_header_values_are_not_cached() -> None:
    """A client may send a different one each time, without a token."""
    tracemalloc.start()
    try:
        for number in range(200):
            text = b"%x" % number * 10_000
            headers = [(b"host", text), (b"x-forwarded-for", text), (b"x-forwarded-proto", text), (b"x-" + text, b"")]
            scope = {
                "headers": headers, "client": (PROXY, 1), "scheme": "http", "method": "GET", "http_version": "1.1",
                "raw_path": b"/locks/a", "query_string": b"",
            }  # fmt: skip
            environ_of(scope, request_id="", trusted_proxies=TRUSTED)
            for long_ones in (headers[:1], [(b"host", b"localhost"), *headers[1:3]]):
                with pytest.raises(Fallback):
                    parse_head({**scope, "headers": long_ones})
        kept, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000
