"""One attempt of a delivery: where it may go, and that it is over in time whatever the receiver does."""

import socket
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from threading import Timer

import pytest

from locks.events.webhooks import sending
from locks.events.webhooks.sending import AttemptResult, send
from locks.events.webhooks.ssrf import Forbidden, check
from locks.events.webhooks.urls import InvalidTarget, parse_target
from tests.locks.events.webhooks.receiver import Receiver, receiving

LOOPBACK = [ip_network("127.0.0.0/8"), ip_network("::1/128")]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


def post(url: str, **options) -> AttemptResult:
    return send(url, body=b"{}", headers={"X-Kind": "test"}, **{"allowed": LOOPBACK, **options})


def test_a_delivery_arrives_with_its_headers(receiver) -> None:
    sent = post(f"{receiver.url}/well?a=1")
    assert (sent.status, sent.error, sent.is_delivered) == (200, None, True)
    (received,) = receiver.at("/well?a=1")
    assert received.body == b"{}"
    assert (received.headers["X-Kind"], received.headers["Host"]) == ("test", f"127.0.0.1:{receiver.port}")


@pytest.mark.parametrize(
    ("path", "status", "error"),
    [
        ("/fails", 500, None),
        ("/redirects", 302, "The receiver answered with a redirect, which is not followed."),
        ("/hangs", None, "The receiver was too slow."),
        ("/drips", None, "The receiver was too slow."),
        ("/continues", None, "The receiver was too slow."),
        ("/trails", None, "The receiver was too slow."),
        ("/long-header", None, "The receiver sent no valid HTTP response."),
    ],
)
def test_a_receiver_that_does_not_accept_it(receiver, path, status, error, monkeypatch) -> None:
    if status is None:
        monkeypatch.setattr(sending, "ATTEMPT_SECONDS", 1.0)
    sent = post(receiver.url + path)
    assert (sent.status, sent.error, sent.is_delivered) == (status, error, False)
    # Those that are slow would take a minute.
    assert sent.duration_ms < 30_000
    assert receiver.at("/well") == []


@pytest.mark.parametrize("path", ["/pours", "/pours-a-chunk"])
def test_a_huge_answer_is_not_read(receiver, path) -> None:
    sent = post(receiver.url + path)
    assert (sent.status, sent.is_delivered) == (200, True)


def test_a_closed_port_and_an_unknown_name() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        sent = post(f"http://127.0.0.1:{unused.getsockname()[1]}/")
    assert sent.error == "Connection refused: nothing listens at that port."
    assert post("http://nowhere.invalid/").error == "The name nowhere.invalid has no address."


def test_a_look_up_that_hangs_ends_with_the_attempt(receiver, monkeypatch) -> None:
    monkeypatch.setattr(sending, "ATTEMPT_SECONDS", 0.5)
    ended = threading.Event()

    def hanging(_host: str, _port: int) -> list:
        ended.wait(60)
        return [ip_address("127.0.0.1")]

    sent = post(f"http://slow.example:{receiver.port}/well", resolver=hanging)
    assert (sent.error, ended.is_set()) == ("The receiver was too slow.", False)
    ended.set()
    assert receiver.received == []


def test_the_time_of_the_look_up_counts(receiver, monkeypatch) -> None:
    """A timer that started with the connection would let the receiver drip for another two seconds."""
    monkeypatch.setattr(sending, "ATTEMPT_SECONDS", 2.0)
    timers = []
    monkeypatch.setattr(
        sending.threading, "Timer", lambda seconds, *rest: timers.append(seconds) or Timer(seconds, *rest)
    )

    def slow(_host: str, _port: int) -> list:
        time.sleep(1)
        return [ip_address("127.0.0.1")]

    post(f"http://slow.example:{receiver.port}/well", resolver=slow)
    assert len(timers) == 1
    assert timers[0] <= 1.0


def test_a_name_that_resolves_to_another_address_is_checked_again(receiver) -> None:
    """DNS rebinding: an address that is allowed when it is checked, another one when it is used. Here
    127.0.0.2 stands for the public internet, since tests talk to loopback only."""
    answers = [ip_address("127.0.0.2"), ip_address("127.0.0.1")]
    resolved = []

    def rebinding(host: str, _port: int) -> list:
        resolved.append(host)
        return [answers[min(len(resolved), len(answers)) - 1]]

    with receiving("127.0.0.2", port=receiver.port) as public:
        url = f"http://rebinding.example:{receiver.port}/well"
        first = post(url, allowed=[ip_network("127.0.0.2/32")], resolver=rebinding)
        second = post(url, allowed=[ip_network("127.0.0.2/32")], resolver=rebinding)
        assert (first.is_delivered, len(public.received)) == (True, 1)
    assert second.error == "The address is private, local or reserved; this server does not deliver there."
    assert resolved == ["rebinding.example"] * 2
    assert receiver.received == []


PUBLIC = ("93.184.216.34", "2606:2800:220:1::1")
FORBIDDEN = "The address is private, local or reserved; this server does not deliver there."


@pytest.fixture
def no_connection(monkeypatch) -> None:
    monkeypatch.setattr(sending.socket, "create_connection", lambda *_: pytest.fail("it connects"))


@pytest.mark.usefixtures("no_connection")
@pytest.mark.parametrize("private", ["127.0.0.1", "::1", "0.0.0.1", "::ffff:10.0.0.1", "fe80::1%lo"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_name_with_one_private_address_is_not_delivered_to(private, position) -> None:
    """Wherever it is in the answer. No connection is attempted, not to the public ones either."""
    answers = [ip_address(each) for each in (*PUBLIC[:position], private, *PUBLIC[position:])]
    sent = post("http://both.example/", allowed=[], resolver=lambda _host, _port: answers)
    assert sent.error == FORBIDDEN


@pytest.mark.usefixtures("no_connection")
@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "127.0.0.1.", "0", "127.0.1", "0x7f.1", "[v1.a]", "xn--lcalhost-6xa"]
)
def test_a_host_is_judged_by_its_address_however_it_is_spelled(host) -> None:
    sent = post(f"http://{host}/", allowed=[], resolver=lambda _host, _port: [ip_address("127.0.0.1")])
    assert sent.error == FORBIDDEN


@pytest.mark.parametrize(("scheme", "port"), [("http", 80), ("https", 443)])
def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch, scheme, port) -> None:
    """The name is not resolved again, when the answer may be another."""
    connected = []

    def refuse(address: tuple[str, int], _timeout: float) -> None:
        connected.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(sending.socket, "create_connection", refuse)
    monkeypatch.setattr(sending.socket, "getaddrinfo", lambda *_: pytest.fail("it resolves the name again"))
    post(f"{scheme}://rebinding.example/", allowed=[], resolver=lambda _host, _port: [ip_address(PUBLIC[0])])
    assert connected == [(PUBLIC[0], port)]


def test_the_address_is_checked_and_the_name_is_sent(receiver) -> None:
    address = [ip_address("127.0.0.1")]
    sent = post(f"http://receiver.example:{receiver.port}/well", resolver=lambda _host, _port: address)
    assert sent.is_delivered
    assert receiver.at("/well")[0].headers["Host"] == f"receiver.example:{receiver.port}"


def test_a_receiver_without_tls_is_distinguished_from_one_that_hangs(receiver) -> None:
    sent = post(f"https://127.0.0.1:{receiver.port}/well")
    assert sent.status is None
    assert sent.error not in (None, "The receiver was too slow.")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.1", "224.0.0.1",
        "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "::", "::1", "fe80::1", "fc00::1", "fec0::1",
        "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1",
        "64:ff9b::a00:1", "64:ff9b:1::808:808", "2002:7f00:1::", "2002:a00:1::", "2001:0:7f00:1::",
        "192.88.99.1", "192.0.0.8", "192.0.0.171", "192.31.196.1", "192.52.193.1", "192.175.48.1", "198.51.100.1",
        "203.0.113.1", "100::1", "100:0:0:1::1", "2001:2::1", "2001:20::1", "2002:5db8:d822::1", "2620:4f:8000::1",
        "3fff::1", "5f00::1", "::ffff:192.88.99.1", "64:ff9b::c058:6301",
        "::ffff:0.0.0.0", "::ffff:0:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1", "2001:0:5db8:d822:8000:63bf:80ff:fffe", "fe80::1%eth0", "ff0e::1", "233.252.0.1",
        "64:ff9b:1:a9fe:a9:fe00::", "::a9fe:a9fe", "fd00:ec2::254",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public_are_refused(address) -> None:
    with pytest.raises(Forbidden):
        check(ip_address(address), port=443, allowed=[])


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"]
)
def test_public_addresses_are_not(address) -> None:
    check(ip_address(address), port=443, allowed=[])
    with pytest.raises(Forbidden):
        check(ip_address(address), port=22, allowed=[])


def test_the_operator_can_allow_a_network_and_nothing_beside_it() -> None:
    check(ip_address("10.1.2.3"), port=9000, allowed=[ip_network("10.1.0.0/16")])
    with pytest.raises(Forbidden):
        check(ip_address("10.2.2.3"), port=443, allowed=[ip_network("10.1.0.0/16")])


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/", "example.com", "https://", "https://user:secret@example.com/", "https://example.com/#part",
        "https://exa mple.com/", "https://example.com/\nX: 1", "https://example.com:99999/", "https://[::1", "http://127.0.0.1/",
        "http://[::ffff:10.0.0.1]/", "https://example.com\\@127.0.0.1/", "https://" + "a" * 2000,
        "http://0.0.0.0/", "http://[::]/", "http://[0:0:0:0:0:ffff:127.0.0.1]/", "https://[fe80::1%25eth0]/",
        "https://@example.com/", "https://example.com:443@127.0.0.1/", "https://ex%61mple.com/", "https://\u2488.com/",
        "https://example.com:+443/", "https://example.com:-1/", "https://example.com:80:80/", "https://exa\tmple.com/",
        "https://example.com/\r\nHost: internal", "https://example.com/?q=\n", "http:///path", "https:\\\\example.com",
        "gopher://example.com/", "https://[::1]extra/", "//example.com/",
    ],
)  # fmt: skip
def test_what_is_no_url_to_deliver_to(url) -> None:
    with pytest.raises(InvalidTarget):
        parse_target(url, allowed=[])


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "127.1", "0177.0.0.1"])
def test_other_spellings_of_loopback_lead_nowhere(receiver, host) -> None:
    """The system's resolver knows them; what counts is the address that comes out."""
    sent = post(f"http://{host}:{receiver.port}/well", allowed=[])
    assert sent.status is None
    assert receiver.received == []
