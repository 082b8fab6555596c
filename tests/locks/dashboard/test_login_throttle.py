"""Guessing is throttled by account and by network, and never locks users out of networks they used before."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from django.db import connection
from django.test import Client

from locks.models import ActorKind, Channel, Event, KnownNetwork, LoginThrottle
from locks.services import login_throttle
from locks.services.audit import Actor
from tests.conftest import PASSWORD

URL = "/ui/sign-in"
HOME, CAFE = "192.0.2.7", "198.51.100.9"


def sign_in(name: str, password: str, address: str) -> int:
    return Client(REMOTE_ADDR=address).post(URL, {"name": name, "password": password}).status_code


def actor_from(address: str) -> Actor:
    return Actor(kind=ActorKind.USER, name="unknown", channel=Channel.WEB, address=address)


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["alice", "unknown"])
def test_after_five_attempts_the_sixth_is_not_checked_whether_the_account_exists_or_not(alice, name):
    assert [sign_in(name, "wrong", CAFE) for _ in range(5)] == [422] * 5
    reply = Client(REMOTE_ADDR=CAFE).post(URL, {"name": name, "password": PASSWORD})
    assert (reply.status_code, "Too many attempts. Try again in" in reply.content.decode()) == (429, True)
    assert 0 < int(reply["Retry-After"]) <= 60
    event = Event.objects.get(kind="sign_in_slowed")
    assert event.detail == {"gate": "password", "by": "pair"}
    assert Event.objects.filter(kind="sign_in_failed").count() == 5


@pytest.mark.django_db
def test_another_spelling_of_a_name_allows_no_further_attempts(victor):
    """The database finds victor under all of these."""
    spellings = ("victor", "VICTOR", "vıctor", "Victor", "vIctor")
    assert [sign_in(name, "wrong", CAFE) for name in spellings] == [422] * 5
    assert sign_in("vıctor", "wrong", CAFE) == 429


@pytest.mark.django_db
def test_the_name_and_the_address_of_a_person_share_one_allowance(alice):
    """The right password is then not checked either, and gets the answer of a wrong one."""
    names = ("alice", "alice@example.com", "Alice", "ALICE@example.com", "alice")
    assert [sign_in(name, "wrong", CAFE) for name in names] == [422] * 5
    assert [sign_in(name, PASSWORD, CAFE) for name in ("alice", "alice@example.com")] == [422] * 2
    assert Event.objects.filter(kind="sign_in_failed").count() == 5
    assert Event.objects.get(kind="sign_in_slowed").detail == {"gate": "account", "by": "pair"}
    with connection.cursor() as cursor:
        cursor.execute("UPDATE octo_login_throttle SET next_free_at = next_free_at - interval '61 seconds'")
    assert sign_in("alice@example.com", PASSWORD, CAFE) == 302


@pytest.mark.django_db
def test_being_throttled_does_not_reveal_that_two_names_are_one_account(alice):
    """Nor that the account exists: unknown names get the same answers."""

    def seen(first: str, second: str, address: str) -> list[tuple[int, bool, bool]]:
        browser, found = Client(REMOTE_ADDR=address), []
        for name in [first] * 6 + [second] * 6:
            reply = browser.post(URL, {"name": name, "password": "wrong"})
            text = reply.content.decode()
            found.append((reply.status_code, "Incorrect name or password" in text, "Too many attempts" in text))
        return found

    known = seen("alice", "alice@example.com", CAFE)
    assert known == seen("unknown", "unknown@example.com", "198.51.100.10")
    assert [status for status, *_ in known] == ([422] * 5 + [429]) * 2


@pytest.mark.django_db
def test_attempts_from_unknown_networks_do_not_lock_out_a_known_one(alice):
    assert sign_in("alice", PASSWORD, HOME) == 302
    for number in range(30):
        sign_in("alice", "wrong", f"198.51.100.{number}")
    assert sign_in("alice", PASSWORD, "203.0.113.1") == 429
    assert sign_in("alice", PASSWORD, HOME) == 302
    assert "strangers" in [event.detail["by"] for event in Event.objects.filter(kind="sign_in_slowed")]


@pytest.mark.django_db
def test_guessing_from_a_known_network_is_throttled_too(alice):
    sign_in("alice", PASSWORD, HOME)
    assert [sign_in("alice", "wrong", HOME) for _ in range(11)] == [422] * 10 + [429]


@pytest.mark.django_db
def test_one_network_cannot_try_all_accounts(alice):
    # On a slow machine a few attempts become free again meanwhile.
    found = [sign_in(f"person-{number}", "Summer2026", CAFE) for number in range(45)]
    assert (found[:30], 429 in found[30:]) == ([422] * 30, True)
    assert sign_in("alice", PASSWORD, HOME) == 302


@pytest.mark.django_db
def test_the_right_password_resets_the_attempts(alice):
    for _ in range(4):
        assert [sign_in("alice", "wrong", CAFE) for _ in range(4)] == [422] * 4
        assert sign_in("alice", PASSWORD, CAFE) == 302


@pytest.mark.django_db
def test_attempts_become_free_again_with_time(alice):
    for _ in range(6):
        sign_in("alice", "wrong", CAFE)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE octo_login_throttle SET next_free_at = next_free_at - interval '61 seconds'")
    assert sign_in("alice", PASSWORD, CAFE) == 302


@pytest.mark.django_db
def test_being_refused_is_recorded_once_a_minute_and_makes_no_rows(alice):
    for _ in range(20):
        sign_in("alice", "wrong", CAFE)
    assert Event.objects.filter(kind="sign_in_slowed").count() == 1
    assert LoginThrottle.objects.count() == 5


@pytest.mark.django_db
def test_one_ipv6_subscriber_is_one_network():
    for number in range(5):
        login_throttle.check(
            scope=login_throttle.ThrottleScope.PASSWORD, subject="x", user=None, actor=actor_from(f"2001:db8::{number}")
        )
    with pytest.raises(login_throttle.TooMany):
        login_throttle.check(
            scope=login_throttle.ThrottleScope.PASSWORD, subject="x", user=None, actor=actor_from("2001:db8::ffff")
        )
    login_throttle.check(
        scope=login_throttle.ThrottleScope.PASSWORD, subject="x", user=None, actor=actor_from("2001:db8:0:1::1")
    )


@pytest.mark.django_db
def test_the_number_of_buckets_is_fixed(monkeypatch):
    monkeypatch.setattr(login_throttle, "BUCKETS", 4)
    for number in range(40):
        with suppress(login_throttle.TooMany):
            login_throttle.check(
                scope=login_throttle.ThrottleScope.PASSWORD,
                subject=f"p{number}",
                user=None,
                actor=actor_from(f"192.0.2.{number}"),
            )
    assert LoginThrottle.objects.count() <= 4 * 3


@pytest.mark.django_db
def test_only_the_latest_networks_are_kept(alice):
    for number in range(login_throttle.MAX_KNOWN_NETWORKS + 5):
        login_throttle.record_network(user=alice, address=f"192.0.2.{number}")
    kept = set(KnownNetwork.objects.values_list("network", flat=True))
    assert kept == {f"192.0.2.{number}" for number in range(5, login_throttle.MAX_KNOWN_NETWORKS + 5)}


@pytest.mark.django_db
def test_the_address_is_the_one_that_trusted_proxies_name(alice):
    """The server puts it into REMOTE_ADDR; headers that the client sends are ignored."""
    for number in range(5):
        Client(REMOTE_ADDR=CAFE).post(
            URL, {"name": "alice", "password": "wrong"}, headers={"X-Forwarded-For": f"203.0.113.{number}"}
        )
    assert sign_in("alice", PASSWORD, CAFE) == 429


def test_concurrent_attempts_are_counted_like_sequential_ones(committed):
    """Each thread has a connection of its own, as server processes have."""

    def one(_number: int) -> bool:
        try:
            login_throttle.check(
                scope=login_throttle.ThrottleScope.PASSWORD, subject="alice", user=None, actor=actor_from(CAFE)
            )
        except login_throttle.TooMany:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(one, range(40))) == 5
    assert Event.objects.filter(kind="sign_in_slowed").count() == 1
