"""What part of the history is asked for. One filter for the API, the pages and the exports.

Every field that is set narrows the result, and each has an index; see migrations/0006_history_upkeep.sql.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from locks.models import Event, Token

_MAX_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, kw_only=True)
class Visibility:
    """What the reader may see: one space, and there only names with one of the prefixes if there are any. Events that
    speak of no lock are hidden from whoever is bound to prefixes."""

    space_id: int
    prefixes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Filter:
    kinds: tuple[str, ...] = ()
    name: str | None = None
    prefix: str | None = None
    owner: str | None = None
    # Who acted, by the name as it was.
    actor: str | None = None
    # The public id of the token whose lease it was, or that was issued, rotated or revoked.
    token: str | None = None
    request_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def select(reach: Visibility, asked: Filter) -> QuerySet[Event]:
    """In no order yet."""
    events = Event.objects.filter(space_id=reach.space_id)
    if reach.prefixes:
        events = events.filter(_within(reach.prefixes))
    if asked.kinds:
        events = events.filter(kind__in=asked.kinds) if len(asked.kinds) > 1 else events.filter(kind=asked.kinds[0])
    if asked.prefix:
        events = events.filter(_within([asked.prefix]))
    if asked.token is not None:
        token = Token.objects.filter(space_id=reach.space_id, public_id=asked.token).first()
        if token is None:
            return events.none()
        events = events.filter(token_id=token.pk)
    exactly = {
        "lock_name": asked.name,
        "owner": asked.owner,
        "actor_name": asked.actor,
        "request_id": asked.request_id,
        "at__gte": asked.since,
        "at__lt": asked.until,
    }
    return events.filter(**{field: value for field, value in exactly.items() if value is not None})


def _within(prefixes: Iterable[str]) -> Q:
    """As ranges, which an index can find; the column's order is that of code points."""
    found = Q()
    for prefix in prefixes:
        names = Q(lock_name__gte=prefix)
        if (beyond := _first_beyond(prefix)) is not None:
            names &= Q(lock_name__lt=beyond)
        found |= names
    return found


def _first_beyond(prefix: str) -> str | None:
    """The first text in order that is after everything that starts with the prefix."""
    kept = prefix.rstrip(chr(_MAX_CHARACTER))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
