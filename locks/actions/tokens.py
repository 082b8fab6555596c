"""Issuing, rotating and revoking bearer tokens.

`issue` and `rotate` return the plaintext beside the token; nothing else ever sees it.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models.functions import Now

from locks import bearer
from locks.actions.audit import Actor, record
from locks.actions.clock import ClockTimestamp
from locks.models import ActorKind, EventKind, Scope, Space, Token, User


def _create(*, space: Space, name: str, scopes: Sequence[str], prefixes: Sequence[str],
            expires_at: datetime | None, created_by: User | None) -> tuple[str, Token]:  # fmt: skip
    plaintext = bearer.generate()
    token = Token.objects.create(
        space=space,
        name=name,
        public_id=plaintext.split("_")[1],
        digest=hashlib.sha256(plaintext.encode()).digest(),
        scopes=[Scope(scope) for scope in scopes],
        prefixes=list(prefixes),
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
    expires_at: datetime | None = None,
    created_by: User | None = None,
) -> tuple[str, Token]:
    """The plaintext, which nothing else will ever see again, and the token. Only whoever runs the server may issue one
    that never expires where the space does not allow it."""
    if expires_at is None and not space.allows_eternal_tokens and actor.kind != ActorKind.SYSTEM:
        raise MustExpire
    plaintext, token = _create(
        space=space, name=name, scopes=scopes, prefixes=prefixes, expires_at=expires_at, created_by=created_by
    )
    record(EventKind.TOKEN_ISSUED, actor=actor, space=space, token=token, detail=_detail(token))
    return plaintext, token


class NotRotatable(Exception):
    """The token was rotated, revoked or has expired, maybe just now."""


@transaction.atomic
def rotate(*, actor: Actor, token: Token, overlap: timedelta, lasts: timedelta | None = None) -> tuple[str, Token]:
    """A new token with the same name and rights; the old one works on for the overlap. The new one expires when the old
    one would have, unless it is told how long it lasts: a leaked token must not prolong itself."""
    # Locked before it is looked at: a token that is revoked meanwhile must not live on in its successor.
    old = (
        Token.objects.select_for_update(of=("self",))
        .select_related("space")
        .annotate(now=ClockTimestamp())
        .get(pk=token.pk)
    )
    now: datetime = old.now
    if old.superseded_at or old.revoked_at or (old.expires_at and old.expires_at <= now):
        raise NotRotatable
    ends = now + overlap
    expires_at = now + lasts if lasts else old.expires_at
    old.expires_at = min(old.expires_at, ends) if old.expires_at else ends
    old.superseded_at = now
    old.save(update_fields=["expires_at", "superseded_at"])
    plaintext, new = _create(
        space=old.space, name=old.name, scopes=old.scopes, prefixes=old.prefixes,
        expires_at=expires_at, created_by=old.created_by,
    )  # fmt: skip
    record(
        EventKind.TOKEN_ROTATED, actor=actor, space=old.space, token=new,
        detail={**_detail(new), "replaces": old.public_id, "overlap_seconds": int(overlap.total_seconds())},
    )  # fmt: skip
    return plaintext, new


@transaction.atomic
def revoke(*, actor: Actor, token: Token, reason: str | None = None) -> bool:
    """Takes effect on the very next request. False if it was revoked already."""
    changed = Token.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=Now())
    if changed:
        record(
            EventKind.TOKEN_REVOKED, actor=actor, space=token.space, token=token, reason=reason,
            detail=_detail(token),
        )  # fmt: skip
    return bool(changed)
