"""Invitations: made by an admin, shown once, good for one person.

An invitation ends with the role of whoever made it, so that nobody who was removed, or whose account was switched off,
comes back by a link of their own.
"""

import hashlib
import re
import secrets
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from locks.models import EventKind, Invite, Membership, Role, Team, User
from locks.services.audit import Actor, record
from locks.services.clock import ClockTimestamp
from locks.services.teams import is_admin, lock_team_as_admin

# Written like a token, so that whatever masks those in a log masks it too; no scanner takes it for one.
PATTERN = re.compile(r"octo_invite_[0-9a-f]{48}", re.ASCII)


class NotOpen(Exception):
    """Used, revoked or expired, maybe just now."""


class MemberAlready(Exception):
    """They are in the team; the invitation stays open for somebody else."""


def _detail(invite: Invite) -> dict[str, object]:
    return {"invite": invite.pk, "role": invite.role, "note": invite.note, "expires_at": invite.expires_at.isoformat()}


@transaction.atomic
def create(*, actor: Actor, by: User, team: Team, role: Role, lasts: timedelta, note: str) -> tuple[str, Invite]:
    """The code of the link, which nothing else will ever see again, and the invitation."""
    lock_team_as_admin(team=team, by=by)
    code = f"octo_invite_{secrets.token_hex(24)}"
    invite = Invite.objects.create(
        team=team, role=role, note=note, created_by=by, digest=_digest(code), expires_at=ClockTimestamp() + lasts
    )
    invite.refresh_from_db()
    record(EventKind.INVITE_CREATED, actor=actor, team=team, detail=_detail(invite))
    return code, invite


def find_open(code: str) -> Invite | None:
    """The invitation a code is for. None for every way it can be wrong."""
    return open_invites().filter(digest=_digest(code)).first() if PATTERN.fullmatch(code) else None


def open_invites() -> QuerySet[Invite]:
    admins = Membership.objects.filter(team=OuterRef("team"), user=OuterRef("created_by"), role=Role.ADMIN)
    return Invite.objects.select_related("team", "created_by").filter(
        Q(created_by__is_superuser=True) | Exists(admins),
        created_by__is_active=True, accepted_at=None, revoked_at=None, expires_at__gt=ClockTimestamp(),
    )  # fmt: skip


@transaction.atomic
def accept(*, actor: Actor, invite: Invite, member: User, is_new: bool = False) -> Membership:
    """Locks the team first, as every change of it does: then a removal of the inviter is over or yet to come."""
    team = Team.objects.select_for_update(no_key=True).get(pk=invite.team_id)
    found = open_invites().filter(pk=invite.pk).first()
    if found is None:
        raise NotOpen
    if Membership.objects.filter(team=team, user=member).exists():
        raise MemberAlready
    membership = Membership.objects.create(team=team, user=member, role=found.role)
    found.accepted_by = member
    found.accepted_at = ClockTimestamp()
    found.save(update_fields=["accepted_by", "accepted_at"])
    inviter = found.created_by.get_username() if found.created_by else None
    record(
        EventKind.MEMBER_JOINED, actor=actor, team=team,
        detail={"person": member.get_username(), "role": found.role, "invite": found.pk, "invited_by": inviter,
                "new_account": is_new},
    )  # fmt: skip
    return membership


@transaction.atomic
def revoke(*, actor: Actor, by: User, team: Team, invite_id: int) -> bool:
    """False if it was used or revoked already."""
    lock_team_as_admin(team=team, by=by)
    return _revoke(actor=actor, team=team, which=Q(pk=invite_id)) > 0


def revoke_those_of(*, actor: Actor, team: Team, inviter: User) -> int:
    """Inside the transaction that takes the inviter's role away."""
    return _revoke(actor=actor, team=team, which=Q(created_by=inviter))


def revoke_where_not_admin(*, actor: Actor, inviter: User) -> None:
    """Inside the transaction that switches an account off or takes the site's rights from it."""
    made = Invite.objects.filter(created_by=inviter, accepted_at=None, revoked_at=None)
    for team in Team.objects.filter(pk__in=made.values("team")).order_by("pk").select_for_update(no_key=True):
        if not is_admin(team_id=team.pk, user_id=inviter.pk):
            revoke_those_of(actor=actor, team=team, inviter=inviter)


def _revoke(*, actor: Actor, team: Team, which: Q) -> int:
    open_ones = Invite.objects.filter(which, team=team, accepted_at=None, revoked_at=None)
    ended = list(open_ones)
    open_ones.update(revoked_at=ClockTimestamp())
    for invite in ended:
        record(EventKind.INVITE_REVOKED, actor=actor, team=team, detail=_detail(invite))
    return len(ended)


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()
