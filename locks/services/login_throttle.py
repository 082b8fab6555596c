"""Throttles guesses of passwords and codes, by account and by network, without locking users out.

An attempt is counted before it is checked, in a transaction of its own, so parallel attempts count in every process.
Attempts from a network from which the account was used before are counted separately. Attempts from all other
networks share one limit per account besides their own, so they can exhaust that shared limit but nothing else.

The buckets are a fixed number of rows; a keyed hash of account and network chooses one, so an attacker cannot aim at
the bucket of another account. A name is counted as it was typed, whether it exists or not, so a throttled answer does
not reveal accounts. In addition each account has one limit under all its names; beyond it, the answer is that for a
wrong password.
"""

import hashlib
import hmac
import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from locks.models import EventKind, KnownNetwork, LoginThrottle, User
from locks.services.audit import Actor, record
from locks.services.networks import network_of

BUCKETS = 65_536
MAX_KNOWN_NETWORKS = 20
KNOWN_NETWORK_DAYS = 90
# Rejected attempts are recorded at most this often.
RECORD_INTERVAL = timedelta(minutes=1)


class ThrottleScope(StrEnum):
    """What is guessed. Each scope has its own buckets."""

    PASSWORD = "password"  # noqa: S105 -- the name of a scope
    # The account of a name: its user name and its e-mail address share this limit.
    ACCOUNT = "account"
    CODE = "code"
    CONFIRMATION = "confirmation"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """`burst` attempts at once, then one every `seconds`."""

    name: str
    burst: int
    seconds: int


KNOWN_NETWORK = Limit(name="own", burst=10, seconds=30)
UNKNOWN_NETWORK = Limit(name="pair", burst=5, seconds=60)
ALL_UNKNOWN_NETWORKS = Limit(name="strangers", burst=20, seconds=60)
PER_NETWORK = Limit(name="network", burst=30, seconds=10)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An attempt that was counted and may be checked."""

    buckets: dict[str, Limit]


class TooMany(Exception):
    """The attempt was rejected without a check."""

    def __init__(self, *, seconds: int) -> None:
        super().__init__(f"too many attempts; the next one in {seconds} s")
        self.seconds = seconds


def check(*, scope: ThrottleScope, subject: str, user: User | None, actor: Actor) -> Attempt:
    """Counts an attempt. Raises TooMany if a limit is exceeded."""
    buckets = _buckets(scope=scope, subject=subject, user=user, address=actor.address)
    rejected = _take(buckets)
    if rejected is None:
        return Attempt(buckets=buckets)
    bucket, wait = rejected
    unrecorded = LoginThrottle.objects.filter(bucket=bucket).exclude(last_logged_at__gt=Now() - RECORD_INTERVAL)
    with transaction.atomic():
        if unrecorded.update(last_logged_at=Now()):
            record(EventKind.SIGN_IN_SLOWED, actor=actor, detail={"gate": scope, "by": buckets[bucket].name})
    raise TooMany(seconds=wait)


def reset(attempt: Attempt) -> None:
    """After a successful attempt: empties the buckets of this account and network, and refunds one attempt to buckets
    that are shared."""
    own = [key for key, limit in attempt.buckets.items() if limit in (KNOWN_NETWORK, UNKNOWN_NETWORK)]
    LoginThrottle.objects.filter(bucket__in=own).update(next_free_at=Now())
    for key, limit in attempt.buckets.items():
        if key not in own:
            refunded = F("next_free_at") - timedelta(seconds=limit.seconds)
            LoginThrottle.objects.filter(bucket=key).update(next_free_at=refunded)


def record_network(*, user: User, address: str | None) -> None:
    network = network_of(address)
    KnownNetwork.objects.bulk_create(
        [KnownNetwork(user=user, network=network, last_used_at=Now())],
        update_conflicts=True,
        unique_fields=["user", "network"],
        update_fields=["last_used_at"],
    )
    known = KnownNetwork.objects.filter(user=user)
    latest = known.order_by("-last_used_at").values_list("pk", flat=True)[:MAX_KNOWN_NETWORKS]
    known.exclude(pk__in=list(latest)).delete()


def purge() -> None:
    """Buckets that are empty again, and networks that were not used for KNOWN_NETWORK_DAYS."""
    LoginThrottle.objects.filter(next_free_at__lt=Now() - timedelta(hours=1)).delete()
    KnownNetwork.objects.filter(last_used_at__lt=Now() - timedelta(days=KNOWN_NETWORK_DAYS)).delete()


def _buckets(*, scope: ThrottleScope, subject: str, user: User | None, address: str | None) -> dict[str, Limit]:
    network = network_of(address)
    # Also queried for unknown names, so that the time of the answer does not reveal accounts.
    is_known = KnownNetwork.objects.filter(user_id=user.pk if user else 0, network=network).exists()
    limits: list[tuple[Limit, tuple[str, ...]]] = (
        [(KNOWN_NETWORK, (subject, network))]
        if is_known
        else [(UNKNOWN_NETWORK, (subject, network)), (ALL_UNKNOWN_NETWORKS, (subject,)), (PER_NETWORK, (network,))]
    )
    if scope is ThrottleScope.ACCOUNT:
        # It is checked beside PASSWORD, which counts the network.
        limits = [(limit, parts) for limit, parts in limits if limit is not PER_NETWORK]
    return {_bucket(scope, limit, parts): limit for limit, parts in limits}


def _bucket(scope: ThrottleScope, limit: Limit, parts: tuple[str, ...]) -> str:
    message = "\0".join((scope, limit.name, *parts)).encode()
    digest = hmac.digest(settings.SECRET_KEY.encode(), message, hashlib.sha256)
    return f"{scope}:{limit.name}:{int.from_bytes(digest[:8]) % BUCKETS}"


@transaction.atomic
def _take(buckets: dict[str, Limit]) -> tuple[str, int] | None:
    """Counts one attempt in every bucket, or in none: then returns the fullest bucket and the seconds to wait."""
    keys = sorted(buckets)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO octo_login_throttle (bucket, next_free_at) SELECT unnest(%s::text[]), clock_timestamp() "
            "ON CONFLICT DO NOTHING",
            [keys],
        )
        # Locked in one order, so that attempts cannot deadlock.
        cursor.execute(
            "SELECT bucket, next_free_at, clock_timestamp() FROM octo_login_throttle "
            "WHERE bucket = ANY(%s) ORDER BY bucket FOR UPDATE",
            [keys],
        )
        rows: list[tuple[str, datetime, datetime]] = cursor.fetchall()
        now = max(row[2] for row in rows)
        waits: dict[str, float] = {}
        next_free: list[datetime] = []
        for key, next_free_at, _now in rows:
            limit = buckets[key]
            moved = max(next_free_at, now) + timedelta(seconds=limit.seconds)
            waits[key] = (moved - now).total_seconds() - limit.seconds * limit.burst
            next_free.append(moved)
        fullest = max(waits, key=lambda key: waits[key])
        if waits[fullest] > 0:
            return fullest, math.ceil(waits[fullest])
        cursor.execute(
            "UPDATE octo_login_throttle SET next_free_at = moved.next_free_at "
            "FROM unnest(%s::text[], %s::timestamptz[]) AS moved (bucket, next_free_at) "
            "WHERE octo_login_throttle.bucket = moved.bucket",
            [keys, next_free],
        )
    return None
