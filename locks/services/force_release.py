"""Force-release: the one place that builds its requests, and the release of all leases of a token or a space.

Each lease is released under the fencing token that was read. A lock whose fencing token has changed meanwhile is read
again by the next batch.
"""

from collections import Counter
from typing import Any

from django.db.models import BigIntegerField, Count, F, Func, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now

from locks.engine.drain import wait_for_statements
from locks.engine.execution import run
from locks.engine.operations import force_release
from locks.engine.requests import ForceRelease
from locks.engine.verdicts import Verdict
from locks.models import Lock, Space, Token
from locks.services import clock
from locks.services.audit import Actor

BATCH_SIZE = 500
# Bounds the time of one call. Leases beyond it expire by themselves; callers report how many are left.
MAX_BATCHES = 40

MAX_REASON = 500
COOLDOWNS = ((0, "No cooldown"), (10, "10 seconds"), (30, "30 seconds"), (60, "1 minute"))


def authorized_by(actor: Actor, *, space_id: int) -> dict[str, Any]:
    """The caller of a request whose authorization was checked in Python, so that the statement checks no token."""
    return {
        "digest": None,
        "space_id": space_id,
        "actor_kind": actor.kind,
        "actor_id": actor.id,
        "actor_name": actor.name,
        "channel": actor.channel,
        "address": actor.address,
        "request_id": actor.request_id,
    }


def force_release_request(
    caller: dict[str, Any],
    *,
    name: str,
    reason: str,
    fencing_token: int | None,
    lock_delay_seconds: int | None = None,
    detail: dict[str, int | str] | None = None,
) -> ForceRelease:
    """`caller` comes from `authorized_by`, or from the API with the digest of a token that the statement checks. With a
    `fencing_token` only that lease is released."""
    return ForceRelease(
        name=name,
        reason=reason,
        expected_fencing_token=fencing_token,
        lock_delay_seconds=lock_delay_seconds,
        detail=detail,
        **caller,
    )


def live_leases(*, space: Space, token: Token | None = None) -> QuerySet[Lock]:
    held = Lock.objects.filter(space=space, lease_id__isnull=False, expires_at__gt=Now()).exclude(
        bound_session_id__in=RawSQL("SELECT id FROM octo_expired_session", [])
    )
    if token is None:
        return held
    predecessors = _with_current_token(Token.objects.filter(space=space, name=token.name))
    return held.filter(token__in=predecessors.filter(current=token.pk).values("pk"))


def held_by_token(*, space: Space) -> dict[int, int]:
    """The number of live leases by token. Leases of a rotated token count for its successor."""
    acquired = dict(live_leases(space=space).values_list("token").annotate(Count("pk")).order_by())
    held: Counter[int] = Counter()
    for token, current in _with_current_token(Token.objects.filter(pk__in=acquired)).values_list("pk", "current"):
        held[current] += acquired[token]
    return held


def _with_current_token(tokens: QuerySet[Token]) -> QuerySet[Any]:
    return tokens.annotate(current=Func(F("pk"), function="octo_current_token", output_field=BigIntegerField()))


def force_release_all(*, actor: Actor, space: Space, token: Token | None = None, reason: str) -> int:
    """The number of leases released. Call it after the commit that prevents new leases: it waits for the claims that
    were running then, and releases what they acquired as well."""
    since = clock.now()
    released = _release_in_batches(actor=actor, space=space, token=token, reason=reason)
    wait_for_statements(since)
    return released + _release_in_batches(actor=actor, space=space, token=token, reason=reason)


def _release_in_batches(*, actor: Actor, space: Space, token: Token | None, reason: str) -> int:
    caller = authorized_by(actor, space_id=space.pk)
    released = 0
    for _batch in range(MAX_BATCHES):
        leases = live_leases(space=space, token=token).order_by("name").values_list("name", "fencing_token")
        batch = [
            force_release_request(caller, name=name, reason=reason, fencing_token=fencing_token)
            for name, fencing_token in leases[:BATCH_SIZE]
        ]
        if not batch:
            break
        released += sum(result.verdict == Verdict.RELEASED for result in run(force_release(batch)))
    return released
