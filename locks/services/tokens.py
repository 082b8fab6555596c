"""Issuing, rotating and revoking bearer tokens.

`issue` and `rotate` return the plaintext beside the token; nothing else ever sees it. Each act looks again, under the
team's lock, whether whoever acts still may, and raises NotAllowed if not. So a token that is being revoked issues none.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from django.db import transaction
from django.db.models.functions import Now

from locks import token_format
from locks.models import EventKind, Scope, Space, Token, User
from locks.services import clock
from locks.services.audit import Actor, record
from locks.services.clock import ClockTimestamp
from locks.services.force_release import force_release_all, live_leases
from locks.services.teams import reauthorize

DEFAULT_LIFETIME = timedelta(days=90)


class Expiry(Enum):
    """When a token expires that is given no moment."""

    USUAL = "usual"
    NEVER = "never"


def _create(*, space: Space, name: str, scopes: Sequence[str], prefixes: Sequence[str],
            expires_at: datetime | None, created_by: User | None) -> tuple[str, Token]:  # fmt: skip
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
    expires_at: datetime | Expiry = Expiry.USUAL,
    created_by: User | None = None,
) -> tuple[str, Token]:
    """The plaintext, which nothing else will ever see again, and the token."""
    reauthorize(actor=actor, space=space)
    if expires_at is Expiry.NEVER and not space.allow_non_expiring_tokens:
        raise MustExpire
    match expires_at:
        case Expiry.NEVER:
            moment = None
        case Expiry.USUAL:
            moment = clock.now() + DEFAULT_LIFETIME
        case _:
            moment = expires_at
    plaintext, token = _create(
        space=space, name=name, scopes=scopes, prefixes=prefixes, expires_at=moment, created_by=created_by
    )
    record(EventKind.TOKEN_ISSUED, actor=actor, space=space, token=token, detail=_detail(token))
    return plaintext, token


class NotRotatable(Exception):
    """The token was rotated, revoked or has expired, maybe just now."""


@transaction.atomic
def rotate(*, actor: Actor, token: Token, overlap: timedelta, lasts: timedelta | None = None) -> tuple[str, Token]:
    """A new token with the same name and rights; the old one works on for the overlap. The new one expires when the old
    one would have, unless it is told how long it lasts: a leaked token must not prolong itself. The successor of one
    that never expires does expire where the space does not allow that any more."""
    reauthorize(actor=actor, space=token.space)
    # Locked before it is looked at: a token that is revoked meanwhile must not live on in its successor.
    old = (
        Token.objects.select_for_update(of=("self",))
        .select_related("space")
        .annotate(now=ClockTimestamp())
        .get(pk=token.pk)
    )
    now: datetime = old.now
    if old.rotated_at or old.revoked_at or (old.expires_at and old.expires_at <= now):
        raise NotRotatable
    ends = now + overlap
    if lasts is None and old.expires_at is None and not old.space.allow_non_expiring_tokens:
        lasts = DEFAULT_LIFETIME
    expires_at = now + lasts if lasts else old.expires_at
    old.expires_at = min(old.expires_at, ends) if old.expires_at else ends
    old.rotated_at = now
    old.save(update_fields=["expires_at", "rotated_at"])
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
    reauthorize(actor=actor, space=token.space)
    changed = Token.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=Now())
    if changed:
        record(
            EventKind.TOKEN_REVOKED, actor=actor, space=token.space, token=token, reason=reason,
            detail=_detail(token),
        )  # fmt: skip
    return bool(changed)


@dataclass(frozen=True, kw_only=True)
class RevocationResult:
    """What became of the leases of a token that was revoked."""

    released: int
    left: int


def revoke_and_release(*, actor: Actor, token: Token, reason: str | None, release: bool) -> RevocationResult | None:
    """Revokes it and, if told, takes its leases back; otherwise they run out. None if it was revoked already.

    Not in one transaction: claims that are under way when the token is revoked may still be granted, and are taken
    back as well.
    """
    if not revoke(actor=actor, token=token, reason=reason):
        return None
    released = 0
    if release:
        because = f"token {token.name} was revoked" + (f": {reason}" if reason else "")
        released = force_release_all(actor=actor, space=token.space, token=token, reason=because[:500])
    return RevocationResult(released=released, left=live_leases(space=token.space, token=token).count())
