"""Slows guessing of passwords and codes, by account and by address, without keeping anybody out of their own place.

A try is counted before it is judged, in a transaction of its own, so a thousand at once are a thousand tries, whichever
process they come to. Who tries from a network from which that account was used before is counted by themselves; all
strangers to an account share one allowance besides their own. A stranger can use up the strangers' tries, no more.

The buckets are a fixed number of rows: an account and a network choose one by a keyed hash, which nobody outside can
aim. What is typed as a name counts as typed, known or not, so being slowed tells nothing either. Besides, each account
has one allowance under all its names: when that is used up, whoever signs in is told what a wrong password is told.
"""

import hashlib
import hmac
import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address, ip_network

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from locks.models import EventKind, KnownNetwork, LoginThrottle, User
from locks.services.audit import Actor, record

COUNTERS = 65_536
# Addresses that a person is remembered to have used, and for how long.
MAX_KNOWN_NETWORKS = 20
KNOWN_NETWORK_DAYS = 90
# However long it is refused, the history says so once a minute.
RECORD_EVERY = timedelta(minutes=1)


class ThrottleScope(StrEnum):
    """What is tried. Each has buckets of its own."""

    PASSWORD = "password"  # noqa: S105 -- the name of a gate
    # The account that a name leads to: its user name and its address share this one.
    ACCOUNT = "account"
    CODE = "code"
    CONFIRMATION = "confirmation"


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """So many tries at once, then one in so many seconds."""

    name: str
    at_once: int
    seconds: int


KNOWN_NETWORK = Allowance(name="own", at_once=10, seconds=30)
UNKNOWN_NETWORK = Allowance(name="pair", at_once=5, seconds=60)
ALL_UNKNOWN_NETWORKS = Allowance(name="strangers", at_once=20, seconds=60)
PER_NETWORK = Allowance(name="network", at_once=30, seconds=10)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One that is allowed. It counts until it is forgiven."""

    buckets: dict[str, Allowance]


class TooMany(Exception):
    """Not judged at all, whether it would have been right or not."""

    def __init__(self, *, seconds: int) -> None:
        super().__init__(f"too many tries; the next one in {seconds} s")
        self.seconds = seconds


def check(*, gate: ThrottleScope, who: str, user: User | None, actor: Actor) -> Attempt:
    """Counts a try. Raises TooMany if there were too many."""
    buckets = _counters(gate=gate, who=who, user=user, address=actor.address)
    refused = _take(buckets)
    if refused is None:
        return Attempt(buckets=buckets)
    bucket, wait = refused
    fresh = LoginThrottle.objects.filter(bucket=bucket).exclude(last_logged_at__gt=Now() - RECORD_EVERY)
    with transaction.atomic():
        if fresh.update(last_logged_at=Now()):
            record(EventKind.SIGN_IN_SLOWED, actor=actor, detail={"gate": gate, "by": buckets[bucket].name})
    raise TooMany(seconds=wait)


def reset(tried: Attempt) -> None:
    """It was right: the pair starts afresh, what is shared with others gets this one try back."""
    mine = [key for key, allowance in tried.buckets.items() if allowance in (KNOWN_NETWORK, UNKNOWN_NETWORK)]
    LoginThrottle.objects.filter(bucket__in=mine).update(next_free_at=Now())
    for key, allowance in tried.buckets.items():
        if key not in mine:
            with connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE octo_login_throttle SET next_free_at = next_free_at - %s * interval '1 s' WHERE bucket = %s",
                    [allowance.seconds, key],
                )


def record_network(*, user: User, address: str | None) -> None:
    network = _network(address)
    KnownNetwork.objects.bulk_create(
        [KnownNetwork(user=user, network=network, last_used_at=Now())],
        update_conflicts=True, unique_fields=["user", "network"], update_fields=["last_used_at"],
    )  # fmt: skip
    known = KnownNetwork.objects.filter(user=user).order_by("-last_used_at")
    KnownNetwork.objects.filter(user=user).exclude(
        pk__in=list(known.values_list("pk", flat=True)[:MAX_KNOWN_NETWORKS])
    ).delete()


def purge() -> None:
    """Counters that allow everything again, and addresses nobody came from for long."""
    LoginThrottle.objects.filter(next_free_at__lt=Now() - timedelta(hours=1)).delete()
    KnownNetwork.objects.filter(last_used_at__lt=Now() - timedelta(days=KNOWN_NETWORK_DAYS)).delete()


def _counters(*, gate: ThrottleScope, who: str, user: User | None, address: str | None) -> dict[str, Allowance]:
    network = _network(address)
    # Asked for nobody too, so that it takes as long.
    is_familiar = KnownNetwork.objects.filter(user_id=user.pk if user else 0, network=network).exists()
    chosen: list[tuple[Allowance, tuple[str, ...]]] = (
        [(KNOWN_NETWORK, (who, network))]
        if is_familiar
        else [(UNKNOWN_NETWORK, (who, network)), (ALL_UNKNOWN_NETWORKS, (who,)), (PER_NETWORK, (network,))]
    )
    if gate is ThrottleScope.ACCOUNT:
        # Beside the gate of the password, which counts the network.
        chosen = [one for one in chosen if one[0] is not PER_NETWORK]
    return {_counter(gate, allowance, parts): allowance for allowance, parts in chosen}


def _counter(gate: ThrottleScope, allowance: Allowance, parts: tuple[str, ...]) -> str:
    message = "\0".join((gate, allowance.name, *parts)).encode()
    found = hmac.digest(settings.SECRET_KEY.encode(), message, hashlib.sha256)
    return f"{gate}:{allowance.name}:{int.from_bytes(found[:8]) % COUNTERS}"


def _network(address: str | None) -> str:
    """One subscriber: an IPv4 address, or the 64 bits of an IPv6 one that they cannot choose."""
    if address is None:
        return "unknown"
    found = ip_address(address)
    return str(ip_network((found, 64), strict=False) if found.version == 6 else found)


@transaction.atomic
def _take(buckets: dict[str, Allowance]) -> tuple[str, int] | None:
    """One try of each, or of none: then the bucket that has none left, and the seconds until it has."""
    keys = sorted(buckets)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO octo_login_throttle (bucket, next_free_at) SELECT unnest(%s::text[]), clock_timestamp() "
            "ON CONFLICT DO NOTHING",
            [keys],
        )
        # Always in the same order, so that two tries never wait for each other.
        cursor.execute(
            "SELECT bucket, next_free_at, clock_timestamp() FROM octo_login_throttle "
            "WHERE bucket = ANY(%s) ORDER BY bucket FOR UPDATE",
            [keys],
        )
        found: list[tuple[str, datetime, datetime]] = cursor.fetchall()
        now = max(row[2] for row in found)
        waits: dict[str, float] = {}
        moved: list[datetime] = []
        for key, next_free_at, _now in found:
            allowance = buckets[key]
            used = max(next_free_at, now) + timedelta(seconds=allowance.seconds)
            waits[key] = (used - now).total_seconds() - allowance.seconds * allowance.at_once
            moved.append(used)
        worst = max(waits, key=lambda key: waits[key])
        if waits[worst] > 0:
            return worst, math.ceil(waits[worst])
        cursor.execute(
            "UPDATE octo_login_throttle SET next_free_at = moved.next_free_at "
            "FROM unnest(%s::text[], %s::timestamptz[]) AS moved (bucket, next_free_at) "
            "WHERE octo_login_throttle.bucket = moved.bucket",
            [keys, moved],
        )
    return None
