"""Teams: who may change one, and the ways to make and rename one.

Whatever changes a team first locks its row, so such acts happen one after the other, and each finds the roles as the
one before left them.
"""

from django.db import transaction
from django.db.models import Q

from locks.models import ActorKind, EventKind, Membership, Role, Space, Team, Token, User
from locks.services.audit import Actor, record
from locks.services.clock import ClockTimestamp


class NotAllowed(Exception):
    """Whoever acts is not, or no longer, an admin of the team, or a token that is good."""


def reauthorize(*, actor: Actor, space: Space) -> None:
    """Inside a transaction, for what people and programs may both do. Locks the team; raises NotAllowed unless a person
    is an admin, or a token is good, at this moment. Whether it has the scope does not change."""
    if actor.kind == ActorKind.SYSTEM:
        return
    assert actor.id is not None
    Team.objects.select_for_update(no_key=True).get(pk=space.team_id)
    if actor.kind == ActorKind.USER:
        allowed = is_admin(team_id=space.team_id, user_id=actor.id)
    else:
        good = Token.objects.filter(Q(expires_at=None) | Q(expires_at__gt=ClockTimestamp()), revoked_at=None)
        allowed = good.filter(pk=actor.id, space=space, space__archived_at=None).exists()
    if not allowed:
        raise NotAllowed


def lock_team_as_admin(*, team: Team, by: User) -> Team:
    """Inside a transaction. Raises NotAllowed unless `by` is an admin at this moment."""
    locked = Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    if not is_admin(team_id=team.pk, user_id=by.pk):
        raise NotAllowed
    return locked


def is_admin(*, team_id: int, user_id: int) -> bool:
    member = Membership.objects.filter(team=team_id, user=user_id, role=Role.ADMIN, user__is_active=True)
    return member.exists() or User.objects.filter(pk=user_id, is_superuser=True, is_active=True).exists()


@transaction.atomic
def create(*, actor: Actor, by: User, name: str, slug: str) -> Team:
    """With a first space, and whoever made it as its admin."""
    if not by.is_superuser:
        raise NotAllowed
    team = Team.objects.create(name=name, slug=slug)
    Membership.objects.create(team=team, user=by, role=Role.ADMIN)
    record(EventKind.TEAM_CREATED, actor=actor, team=team, detail={"team": name, "slug": slug})
    space = Space.objects.create(team=team, slug="main", name="Main")
    record(EventKind.SPACE_CREATED, actor=actor, space=space, detail={"space": space.name, "slug": space.slug})
    return team


@transaction.atomic
def rename(*, actor: Actor, by: User, team: Team, name: str) -> None:
    """The address stays, so that links do."""
    locked = lock_team_as_admin(team=team, by=by)
    if locked.name == name:
        return
    record(EventKind.TEAM_RENAMED, actor=actor, team=team, detail={"from": locked.name, "to": name})
    locked.name = name
    locked.save(update_fields=["name"])
