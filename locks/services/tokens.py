"""Issuing, rotating and revoking bearer tokens.

`issue` and `rotate` return the plaintext beside the token; it is not stored. Each function checks the authorization of
the actor again under the team's lock and raises NotAllowed, so a token that is being revoked cannot issue another one.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import cast
from uuid import UUID

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from locks import token_format
from locks.engine.names import InvalidPath, canonical_prefix
from locks.models import ActorKind, EventKind, Scope, Space, Token, User
from locks.services import clock
from locks.services.audit import Actor, record
from locks.services.clock import ClockTimestamp
from locks.services.force_release import MAX_REASON, force_release_all, live_leases
from locks.services.teams import reauthorize
from locks.token_rules import is_valid_prefix

DEFAULT_LIFETIME = timedelta(days=90)


class Expiry(Enum):
    """The expiry of a token that is issued without a time."""

    DEFAULT = "default"
    NEVER = "never"


def _create(
    *,
    space: Space,
    name: str,
    scopes: Sequence[str],
    prefixes: Sequence[str],
    expires_at: datetime | None,
    created_by: User | None,
) -> tuple[str, Token]:
    plaintext = token_format.generate()
    token = Token.objects.create(
        space=space,
        name=name,
        public_id=plaintext.split("_")[1],
        digest=hashlib.sha256(plaintext.encode()).digest(),
        scopes=list(dict.fromkeys(Scope(scope) for scope in scopes)),
        prefixes=list(dict.fromkeys(prefixes)),
        expires_at=expires_at,
        created_by=created_by,
    )
    return plaintext, token


def _detail(token: Token) -> dict[str, object]:
    return {
        "name": token.name,
        "public_id": token.public_id,
        "scopes": list(token.scopes),
        "prefixes": list(token.prefixes),
        "expires_at": token.expires_at.isoformat() if token.expires_at else None,
    }


def user_id(token: Token) -> UUID:
    """What OctoStore's clients know a token's user by: the same as the `holder_id` of its locks without a session."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT octo_holder_id(%s, NULL)::uuid", [token.public_id])
        (found,) = cursor.fetchone()
    return cast(UUID, found)


class MustExpire(Exception):
    """The space does not allow tokens without an expiry."""


@transaction.atomic
def issue(
    *,
    actor: Actor,
    space: Space,
    name: str,
    scopes: Sequence[str],
    prefixes: Sequence[str] = (),
    expires_at: datetime | Expiry = Expiry.DEFAULT,
    created_by: User | None = None,
) -> tuple[str, Token]:
    reauthorize(actor=actor, space=space)
    match expires_at:
        case Expiry.NEVER:
            if not space.allow_non_expiring_tokens:
                raise MustExpire
            expiry = None
        case Expiry.DEFAULT:
            expiry = clock.now() + DEFAULT_LIFETIME
        case _:
            expiry = expires_at
    plaintext, token = _create(
        space=space, name=name, scopes=scopes, prefixes=prefixes, expires_at=expiry, created_by=created_by
    )
    record(EventKind.TOKEN_ISSUED, actor=actor, space=space, token=token, detail=_detail(token))
    return plaintext, token


class NotRotatable(Exception):
    """The token was rotated or revoked, or has expired."""


@transaction.atomic
def rotate(*, actor: Actor, token: Token, overlap: timedelta, lifetime: timedelta | None = None) -> tuple[str, Token]:
    """A new token with the same name and scopes; the old one stays valid for the overlap. Without `lifetime` the new
    token expires when the old one would have, so that a leaked token cannot extend itself. The successor of a token
    without expiry gets one if the space does not allow such tokens any more. A person who rotates a token has seen the
    new secret and counts as its creator."""
    reauthorize(actor=actor, space=token.space)
    # The row is locked while it is checked: a token that is revoked meanwhile must not get a successor.
    old = (
        Token.objects.valid()
        .select_for_update(of=("self",))
        .select_related("space")
        .annotate(now=ClockTimestamp())
        .filter(pk=token.pk, rotated_at=None)
        .first()
    )
    if old is None:
        raise NotRotatable
    now: datetime = old.now  # type: ignore[attr-defined]  # annotated above
    overlap_end = now + overlap
    if lifetime is None and old.expires_at is None and not old.space.allow_non_expiring_tokens:
        lifetime = DEFAULT_LIFETIME
    expires_at = now + lifetime if lifetime else old.expires_at
    old.expires_at = min(old.expires_at, overlap_end) if old.expires_at else overlap_end
    old.rotated_at = now
    old.save(update_fields=["expires_at", "rotated_at"])
    plaintext, new = _create(
        space=old.space,
        name=old.name,
        scopes=old.scopes,
        prefixes=old.prefixes,
        expires_at=expires_at,
        created_by=User.objects.get(pk=actor.id) if actor.kind == ActorKind.USER else old.created_by,
    )
    detail = {**_detail(new), "replaces": old.public_id, "overlap_seconds": int(overlap.total_seconds())}
    record(EventKind.TOKEN_ROTATED, actor=actor, space=old.space, token=new, detail=detail)
    return plaintext, new


@transaction.atomic
def revoke(*, actor: Actor, token: Token, reason: str | None = None) -> bool:
    """Takes effect with the next request. False if the token was revoked already."""
    reauthorize(actor=actor, space=token.space)
    changed = Token.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=Now())
    if changed:
        detail = _detail(token)
        record(EventKind.TOKEN_REVOKED, actor=actor, space=token.space, token=token, reason=reason, detail=detail)
    return bool(changed)


@dataclass(frozen=True, kw_only=True)
class RevocationResult:
    """The numbers of leases released, and left to expire."""

    released: int
    left: int


def predecessors(token: Token) -> QuerySet[Token]:
    """Tokens that were rotated to this one and are still valid, because the overlap is not over."""
    return (
        Token.objects.active()
        .select_related("space__team")
        .filter(space=token.space_id, name=token.name, rotated_at__isnull=False, pk__lt=token.pk)
        .order_by("-pk")
    )


def revoke_and_release(
    *, actor: Actor, token: Token, reason: str | None, release: bool, with_predecessors: bool = False
) -> RevocationResult | None:
    """With `release` the token's leases are force-released; otherwise they expire. None if it was revoked already.

    Not in one transaction: claims that are running when the token is revoked may still be granted, and are released as
    well.
    """
    if not revoke(actor=actor, token=token, reason=reason):
        return None
    revoked = [token]
    if with_predecessors:
        revoked += [each for each in predecessors(token) if revoke(actor=actor, token=each, reason=reason)]
    released = 0
    if release:
        text = f"token {token.name} was revoked" + (f": {reason}" if reason else "")
        for each in revoked:
            released += force_release_all(actor=actor, space=each.space, token=each, reason=text[:MAX_REASON])
    left = sum(live_leases(space=each.space, token=each).count() for each in revoked)
    return RevocationResult(released=released, left=left)


def canonical_prefixes(prefixes: Sequence[str], *, space: Space) -> list[str] | None:
    """Without duplicates, paths in their canonical form; None if one of them is not valid."""
    try:
        canonical = [canonical_prefix(prefix, lambda: space.namespaces) for prefix in prefixes]
    except InvalidPath:
        return None
    return list(dict.fromkeys(canonical)) if all(is_valid_prefix(prefix) for prefix in prefixes) else None
