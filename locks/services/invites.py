"""Invitations: created by an admin, shown once, valid for one person.

An invitation is valid only while its inviter is an admin of the team, so that a removed or deactivated admin cannot
return through a link of their own.
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

# The prefix lets log filters mask it like a token. Its length differs, so secret scanners do not take it for one.
PATTERN = re.compile(r"octo_invite_[0-9a-f]{48}", re.ASCII)


class NotOpen(Exception):
    """The invitation was used or revoked, or has expired."""


class AlreadyMember(Exception):
    """The user is a member of the team. The invitation stays open for another person."""


def _detail(invite: Invite) -> dict[str, object]:
    return {"invite": invite.pk, "role": invite.role, "note": invite.note, "expires_at": invite.expires_at.isoformat()}


@transaction.atomic
def create(*, actor: Actor, by: User, team: Team, role: Role, lifetime: timedelta, note: str) -> tuple[str, Invite]:
    """The plaintext code of the link, which is not stored, and the invitation."""
    lock_team_as_admin(team=team, by=by)
    code = f"octo_invite_{secrets.token_hex(24)}"
    invite = Invite.objects.create(
        team=team, role=role, note=note, created_by=by, digest=_digest(code), expires_at=ClockTimestamp() + lifetime
    )
    invite.refresh_from_db()
    record(EventKind.INVITE_CREATED, actor=actor, team=team, detail=_detail(invite))
    return code, invite


def find_open(code: str) -> Invite | None:
    """None if the code is malformed or unknown, or its invitation is not open."""
    return open_invites().filter(digest=_digest(code)).first() if PATTERN.fullmatch(code) else None


def open_invites() -> QuerySet[Invite]:
    admins = Membership.objects.filter(team=OuterRef("team"), user=OuterRef("created_by"), role=Role.ADMIN)
    return Invite.objects.select_related("team", "created_by").filter(
        Q(created_by__is_superuser=True) | Exists(admins),
        created_by__is_active=True,
        accepted_at=None,
        revoked_at=None,
        expires_at__gt=ClockTimestamp(),
    )


@transaction.atomic
def accept(*, actor: Actor, invite: Invite, member: User, is_new: bool = False) -> Membership:
    """Locks the team first, as every change of a team does, so that a removal of the inviter cannot run meanwhile."""
    team = Team.objects.select_for_update(no_key=True).get(pk=invite.team_id)
    open_invite = open_invites().filter(pk=invite.pk).first()
    if open_invite is None:
        raise NotOpen
    if Membership.objects.filter(team=team, user=member).exists():
        raise AlreadyMember
    membership = Membership.objects.create(team=team, user=member, role=open_invite.role)
    open_invite.accepted_by = member
    open_invite.accepted_at = ClockTimestamp()
    open_invite.save(update_fields=["accepted_by", "accepted_at"])
    detail = {
        "person": member.get_username(),
        "role": open_invite.role,
        "invite": open_invite.pk,
        "invited_by": open_invite.created_by.get_username() if open_invite.created_by else None,
        "new_account": is_new,
    }
    record(EventKind.MEMBER_JOINED, actor=actor, team=team, detail=detail)
    return membership


@transaction.atomic
def revoke(*, actor: Actor, by: User, team: Team, invite_id: int) -> bool:
    """False if it was used or revoked already."""
    lock_team_as_admin(team=team, by=by)
    return _revoke(actor=actor, team=team, condition=Q(pk=invite_id)) > 0


def revoke_all_by(*, actor: Actor, team: Team, inviter: User) -> int:
    """Call it in the transaction that removes the inviter's role."""
    return _revoke(actor=actor, team=team, condition=Q(created_by=inviter))


def revoke_where_not_admin(*, actor: Actor, inviter: User) -> None:
    """Call it in the transaction that deactivates an account or removes its superuser rights."""
    pending = Invite.objects.filter(created_by=inviter, accepted_at=None, revoked_at=None)
    for team in Team.objects.filter(pk__in=pending.values("team")).order_by("pk").select_for_update(no_key=True):
        if not is_admin(team_id=team.pk, user_id=inviter.pk):
            revoke_all_by(actor=actor, team=team, inviter=inviter)


def _revoke(*, actor: Actor, team: Team, condition: Q) -> int:
    pending = Invite.objects.filter(condition, team=team, accepted_at=None, revoked_at=None)
    revoked = list(pending)
    pending.update(revoked_at=ClockTimestamp())
    for invite in revoked:
        record(EventKind.INVITE_REVOKED, actor=actor, team=team, detail=_detail(invite))
    return len(revoked)


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()
