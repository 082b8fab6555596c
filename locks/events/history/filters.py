"""Which part of the history a reader asks for: one filter for the API, the pages and the exports."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.db.models import BigIntegerField, Func, Q, QuerySet, Value

from locks.models import Event, Token

_MAX_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, kw_only=True)
class Visibility:
    """What the reader may see: one space and, if there are prefixes, only locks whose names start with one of them.
    Events without a lock are hidden from readers with prefixes."""

    space_id: int
    prefixes: tuple[str, ...] = ()
    # For an actor of a run: of the locks that belong to runs and layers, those whose names start with one of these.
    run_prefixes: tuple[str, ...] | None = None


# Names that belong to runs and layers; see locks/runs/names.py.
RUN_NAMES = ("layer:", "run:")


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Each field that is set narrows the result; each is backed by an index (migrations/0002_event_history.sql)."""

    kinds: tuple[str, ...] = ()
    name: str | None = None
    prefix: str | None = None
    owner: str | None = None
    # The name, at that time, of the person or token that acted.
    actor: str | None = None
    # The public id of the token that held the lease, or that was issued, rotated or revoked.
    token: str | None = None
    # The tokens of a run's actors, which are concerned by all of its events.
    token_ids: tuple[int, ...] | None = None
    request_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def select(visibility: Visibility, filters: Filter) -> QuerySet[Event]:
    """Unordered."""
    events = Event.objects.filter(space_id=visibility.space_id)
    if visibility.prefixes:
        events = events.filter(_with_prefixes(visibility.prefixes))
    if visibility.run_prefixes is not None:
        foreign = _with_prefixes(RUN_NAMES) & ~_with_prefixes(visibility.run_prefixes)
        events = events.filter(Q(lock_name=None) | ~foreign)
    if filters.kinds:
        events = events.filter(kind__in=filters.kinds)
    if filters.prefix:
        events = events.filter(_with_prefixes([filters.prefix]))
    terms: list[Value | Func] = []
    token_id = None
    if filters.owner is not None:
        terms.append(_hash(filters.owner, salt=visibility.space_id))
    if filters.actor is not None:
        terms.append(_hash(filters.actor, salt=-visibility.space_id))
    if filters.token is not None:
        token = Token.objects.filter(space_id=visibility.space_id, public_id=filters.token).first()
        if token is None:
            return events.none()
        token_id = token.pk
        terms.append(Value(token_id, BigIntegerField()))
    if filters.token_ids is not None:
        ids = [Value(token_id, BigIntegerField()) for token_id in filters.token_ids]
        events = events.alias(terms=_TERMS).filter(terms__overlap=ids, token_id__in=filters.token_ids)
    if terms:
        events = events.alias(terms=_TERMS).filter(terms__contains=terms)
    conditions = {
        "lock_name": filters.name,
        "owner": filters.owner,
        "actor_name": filters.actor,
        "token_id": token_id,
        "request_id": filters.request_id,
        "at__gte": filters.since,
        "at__lt": filters.until,
    }
    return events.filter(**{field: value for field, value in conditions.items() if value is not None})


# The expression of the index event_of_terms.
_TERMS = Func(
    "space_id", "owner", "token_id", "actor_name",
    function="octo_event_terms", output_field=ArrayField(BigIntegerField()),
)  # fmt: skip


def _hash(text: str, *, salt: int) -> Func:
    return Func(Value(text), Value(salt), function="hashtextextended", output_field=BigIntegerField())


def _with_prefixes(prefixes: Iterable[str]) -> Q:
    """As ranges, which an index can find: the column is ordered by code point."""
    condition = Q()
    for prefix in prefixes:
        names = Q(lock_name__gte=prefix)
        if (end := _end_of_range(prefix)) is not None:
            names &= Q(lock_name__lt=end)
        condition |= names
    return condition


def _end_of_range(prefix: str) -> str | None:
    """The first text in order after all texts that start with the prefix."""
    kept = prefix.rstrip(chr(_MAX_CHARACTER))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
