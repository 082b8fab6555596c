"""Taking leases back from many holders at once: those of a token, or all of a space.

Through the engine, in batches, each lease guarded by the fencing token that was seen: what has changed hands meanwhile
is looked at again.
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

BATCH = 500
# Of half a million leases somebody would wait too long; what is left runs out by itself, and the answer says so.
MAX_BATCHES = 40


def live_leases(*, space: Space, token: Token | None = None) -> QuerySet[Lock]:
    held = Lock.objects.filter(space=space, lease_id__isnull=False, expires_at__gt=Now()).exclude(
        bound_session_id__in=RawSQL("SELECT id FROM octo_expired_session", [])
    )
    if token is None:
        return held
    takers = _with_successors(Token.objects.filter(space=space, name=token.name)).filter(heir=token.pk)
    return held.filter(token__in=takers.values("pk"))


def held_by_token(*, space: Space) -> dict[int, int]:
    taken = dict(live_leases(space=space).values_list("token").annotate(Count("pk")).order_by())
    held: Counter[int] = Counter()
    for taker, heir in _with_successors(Token.objects.filter(pk__in=taken)).values_list("pk", "heir"):
        held[heir] += taken[taker]
    return held


def _with_successors(tokens: QuerySet[Token]) -> QuerySet[Any]:
    return tokens.annotate(heir=Func(F("pk"), function="octo_current_token", output_field=BigIntegerField()))


def force_release_all(*, actor: Actor, space: Space, token: Token | None = None, reason: str) -> int:
    """Frees them and tells how many. To be called after the commit that keeps new ones from being taken: it waits for
    claims that were under way then, and takes what those got as well."""
    since = clock.now()
    released = _force_release_all(actor=actor, space=space, token=token, reason=reason)
    wait_for_statements(since)
    return released + _force_release_all(actor=actor, space=space, token=token, reason=reason)


def _force_release_all(*, actor: Actor, space: Space, token: Token | None, reason: str) -> int:
    released = 0
    for _batch in range(MAX_BATCHES):
        seen = live_leases(space=space, token=token).order_by("name").values_list("name", "fencing_token")[:BATCH]
        asked = [
            ForceRelease(
                digest=None, space_id=space.pk, actor_kind=actor.kind, actor_id=actor.id, actor_name=actor.name,
                channel=actor.channel, address=actor.address, request_id=actor.request_id, name=name, reason=reason,
                expected_fencing_token=fencing_token,
            )
            for name, fencing_token in seen
        ]  # fmt: skip
        if not asked:
            break
        outcomes = run(force_release(asked))
        released += sum(outcome.verdict == Verdict.RELEASED for outcome in outcomes)
    return released
