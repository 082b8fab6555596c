"""Teams: who may change one, and the ways to make and rename one.

Whatever changes a team first locks its row, so such acts happen one after the other, and each finds the roles as the
one before left them.
"""

from django.db import transaction

from locks.actions.audit import Actor, record
from locks.models import EventKind, Membership, Role, Space, Team, User


class NotAllowed(Exception):
    """Whoever acts is not, or no longer, an admin of the team."""


def lock_for(*, team: Team, by: User) -> Team:
    """Inside a transaction. Raises NotAllowed unless `by` is an admin at this moment."""
    locked = Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    is_admin = Membership.objects.filter(team=team, user=by, role=Role.ADMIN, user__is_active=True).exists()
    if not is_admin and not User.objects.filter(pk=by.pk, is_superuser=True, is_active=True).exists():
        raise NotAllowed
    return locked


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
    locked = lock_for(team=team, by=by)
    if locked.name == name:
        return
    record(EventKind.TEAM_RENAMED, actor=actor, team=team, detail={"from": locked.name, "to": name})
    locked.name = name
    locked.save(update_fields=["name"])
