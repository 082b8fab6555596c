"""Deliveries over TLS: only to a receiver with a certificate for the name, at the address that was checked."""

from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from locks.events.webhooks import sending
from locks.events.webhooks.sending import AttemptResult, send
from tests.locks.events.webhooks.authority import Authority
from tests.locks.events.webhooks.receiver import receiving

HOST = "receiver.example"
# Stands for the address that the name has; the operator has allowed it.
ADDRESS = "127.0.0.2"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def _trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As an operator trusts an authority of their own: by the variable that OpenSSL reads."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    sending._tls.cache_clear()
    yield
    sending._tls.cache_clear()


def post(port: int) -> AttemptResult:
    return send(
        f"https://{HOST}:{port}/well", body=b"{}", headers={}, allowed=[ip_network(f"{ADDRESS}/32")],
        resolver=lambda _host, _port: [ip_address(ADDRESS)],
    )  # fmt: skip


@pytest.mark.usefixtures("_trusted")
def test_a_receiver_with_a_valid_certificate_is_called_at_the_address_that_was_checked(authority):
    server_names = []
    presents = authority.server(HOST)
    presents.sni_callback = lambda _socket, name, _context: server_names.append(name)
    with receiving(ADDRESS, tls=presents) as receiver:
        sent = post(receiver.port)
    assert (sent.status, sent.error) == (200, None)
    (received,) = receiver.received
    assert server_names == [HOST]
    assert (received.headers["Host"], received.arrived_at) == (f"{HOST}:{receiver.port}", ADDRESS)


@pytest.mark.usefixtures("_trusted")
@pytest.mark.parametrize(
    ("host", "terms", "says"),
    [
        (HOST, {"self_signed": True}, "self-signed certificate"),
        (HOST, {"expired": True}, "certificate has expired"),
        ("another.example", {}, f"certificate is not valid for '{HOST}'"),
    ],
)
def test_any_other_certificate_is_refused_before_a_byte_is_sent(authority, host, terms, says):
    with receiving(ADDRESS, tls=authority.server(host, **terms)) as receiver:
        sent = post(receiver.port)
        assert receiver.received == []
    assert (sent.status, sent.is_delivered) == (None, False)
    assert sent.error.startswith("The receiver's certificate is not valid: ")
    assert says in sent.error


def test_a_certificate_of_an_untrusted_authority_is_refused(authority):
    with receiving(ADDRESS, tls=authority.server(HOST)) as receiver:
        sent = post(receiver.port)
        assert receiver.received == []
    assert "unable to get local issuer certificate" in sent.error
