"""Members of a team and their roles. A team always keeps an admin who can sign in."""

from collections.abc import Mapping

from django.db import transaction

from locks.models import EventKind, Membership, Role, Space, SpaceRole, Team, User
from locks.services import invites
from locks.services.audit import Actor, record
from locks.services.teams import lock_team_as_admin

# Instead of a role in a space, in the history and on the pages.
AS_IN_TEAM = "as in the team"


class LastAdmin(Exception):
    """The team would be left without an admin."""


class IsAdmin(Exception):
    """An admin of the team is an admin in each of its spaces."""


class NotAMember(Exception):
    """The user is not, or no longer, a member of the team."""


@transaction.atomic
def change_role(*, actor: Actor, by: User, team: Team, member: User, role: Role) -> bool:
    """False if the member has that role already."""
    lock_team_as_admin(team=team, by=by)
    membership = _membership(team, member)
    before = Role(membership.role)
    if before == role:
        return False
    if before == Role.ADMIN:
        _require_other_admin(team, member)
        invites.revoke_all_by(actor=actor, team=team, inviter=member)
    if role == Role.ADMIN:
        # Otherwise they would apply again, unexpectedly, once the member is no longer an admin.
        for space in Space.objects.filter(roles__membership=membership):
            _set_space_role(actor=actor, membership=membership, space=space, role=None)
    membership.role = role
    membership.save(update_fields=["role"])
    detail = {"person": member.get_username(), "from": before.value, "to": role.value}
    record(EventKind.ROLE_CHANGED, actor=actor, team=team, detail=detail)
    return True


@transaction.atomic
def set_space_roles(*, actor: Actor, by: User, team: Team, member: User, roles: Mapping[Space, Role | None]) -> None:
    """The roles of the member in these spaces of the team; None: the role in the team. Raises IsAdmin for an admin."""
    lock_team_as_admin(team=team, by=by)
    membership = _membership(team, member)
    if membership.role == Role.ADMIN:
        raise IsAdmin
    for space, role in roles.items():
        assert space.team_id == team.pk
        _set_space_role(actor=actor, membership=membership, space=space, role=role)


def _set_space_role(*, actor: Actor, membership: Membership, space: Space, role: Role | None) -> None:
    stored = SpaceRole.objects.filter(membership=membership, space=space)
    before = stored.values_list("role", flat=True).first()
    if before == role:
        return
    if role is None:
        stored.delete()
    else:
        SpaceRole.objects.update_or_create(membership=membership, space=space, defaults={"role": role})
    detail = {
        "person": membership.user.get_username(), "space": space.name, "from": before or AS_IN_TEAM,
        "to": role.value if role else AS_IN_TEAM,
    }  # fmt: skip
    record(EventKind.SPACE_ROLE_CHANGED, actor=actor, space=space, detail=detail)


@transaction.atomic
def remove(*, actor: Actor, by: User, team: Team, member: User) -> None:
    lock_team_as_admin(team=team, by=by)
    _delete_membership(actor=actor, team=team, member=member, kind=EventKind.MEMBER_REMOVED)


@transaction.atomic
def leave(*, actor: Actor, team: Team, member: User) -> None:
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    _delete_membership(actor=actor, team=team, member=member, kind=EventKind.MEMBER_LEFT)


def teams_without_other_admin(member: User) -> list[Team]:
    """Teams of which the member is the only admin who can sign in. Locks all teams of the member, so call it inside a
    transaction."""
    teams_of_member = Team.objects.filter(memberships__user=member).order_by("pk")
    teams = list(teams_of_member.select_for_update(no_key=True, of=("self",)))
    admins = Membership.objects.filter(team__in=teams, role=Role.ADMIN)
    administered = set(admins.filter(user=member).values_list("team_id", flat=True))
    others = set(admins.filter(user__is_active=True).exclude(user=member).values_list("team_id", flat=True))
    return [team for team in teams if team.pk in administered - others]


def _delete_membership(*, actor: Actor, team: Team, member: User, kind: EventKind) -> None:
    membership = _membership(team, member)
    if membership.role == Role.ADMIN:
        _require_other_admin(team, member)
        invites.revoke_all_by(actor=actor, team=team, inviter=member)
    record(kind, actor=actor, team=team, detail={"person": member.get_username(), "role": membership.role})
    membership.delete()


def _membership(team: Team, member: User) -> Membership:
    membership = Membership.objects.filter(team=team, user=member).first()
    if membership is None:
        raise NotAMember
    return membership


def _require_other_admin(team: Team, member: User) -> None:
    others = Membership.objects.filter(team=team, role=Role.ADMIN, user__is_active=True).exclude(user=member)
    if not others.exists():
        raise LastAdmin
