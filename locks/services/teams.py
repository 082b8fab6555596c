"""Teams: authorization of changes, creation and renaming.

Every change of a team locks the team's row first, so that changes are serialised and each one sees the present roles.
"""

from django.db import transaction

from locks.models import ActorKind, EventKind, Membership, Role, Space, Team, Token, User
from locks.services.audit import Actor, record


class NotAllowed(Exception):
    """The actor is not, or no longer, an admin of the team or a valid token."""


def reauthorize(*, actor: Actor, space: Space) -> None:
    """Locks the team, so call it inside a transaction. Raises NotAllowed unless the user is an admin, or the token is
    valid, at this moment. The scopes of a token do not change, so they are not checked again."""
    if actor.kind == ActorKind.SYSTEM:
        return
    assert actor.id is not None
    Team.objects.select_for_update(no_key=True).get(pk=space.team_id)
    if actor.kind == ActorKind.USER:
        allowed = is_admin(team_id=space.team_id, user_id=actor.id)
    else:
        allowed = Token.objects.valid().filter(pk=actor.id, space=space).exists()
    if not allowed:
        raise NotAllowed


def lock_team_as_admin(*, team: Team, by: User) -> Team:
    """Call it inside a transaction. Raises NotAllowed unless `by` is an admin at this moment."""
    locked = Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    if not is_admin(team_id=team.pk, user_id=by.pk):
        raise NotAllowed
    return locked


def is_admin(*, team_id: int, user_id: int) -> bool:
    member = Membership.objects.filter(team=team_id, user=user_id, role=Role.ADMIN, user__is_active=True)
    return member.exists() or User.objects.filter(pk=user_id, is_superuser=True, is_active=True).exists()


@transaction.atomic
def create(*, actor: Actor, by: User, name: str, slug: str) -> Team:
    """With a first space, and `by` as its admin."""
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
    """The slug stays, so that links keep working."""
    locked = lock_team_as_admin(team=team, by=by)
    if locked.name == name:
        return
    record(EventKind.TEAM_RENAMED, actor=actor, team=team, detail={"from": locked.name, "to": name})
    locked.name = name
    locked.save(update_fields=["name"])
