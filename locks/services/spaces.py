"""Spaces of a team: create, change, archive and restore."""

from typing import Any

from django.db import transaction

from locks.engine.drain import wait_for_statements
from locks.models import EventKind, Space, Team, User
from locks.services import clock
from locks.services.audit import Actor, record
from locks.services.force_release import force_release_all, live_leases
from locks.services.teams import lock_team_as_admin


class LocksAreHeld(Exception):
    """The space has live leases, and the caller did not ask to release them."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class AlreadyArchived(Exception):
    """Another request has archived the space."""


class NotArchived(Exception):
    """Another request has restored the space."""


class LastSpace(Exception):
    """A team keeps one space, because its pages are reached through a space."""


@transaction.atomic
def create(*, actor: Actor, by: User, team: Team, space: Space) -> Space:
    """Saves a validated, unsaved space."""
    lock_team_as_admin(team=team, by=by)
    space.team = team
    space.save(force_insert=True)
    record(EventKind.SPACE_CREATED, actor=actor, space=space, detail={"space": space.name, "slug": space.slug})
    return space


@transaction.atomic
def change(*, actor: Actor, by: User | None, space: Space, changes: dict[str, Any]) -> bool:
    """Takes effect with the next request: every statement reads the limits. False if nothing has changed.
    `manage.py` has no user."""
    if by is None:
        Team.objects.select_for_update(no_key=True).get(pk=space.team_id)
    else:
        lock_team_as_admin(team=space.team, by=by)
    stored = Space.objects.get(pk=space.pk, archived_at=None)
    before = {field: getattr(stored, field) for field in changes}
    changed = {field: value for field, value in changes.items() if value != before[field]}
    if not changed:
        return False
    for field, value in changed.items():
        setattr(stored, field, value)
    stored.save(update_fields=list(changed))
    detail = {"space": stored.name} | {field: {"from": before[field], "to": value} for field, value in changed.items()}
    record(EventKind.SPACE_CHANGED, actor=actor, space=stored, detail=detail)
    return True


def archive(*, actor: Actor, by: User, space: Space, release: bool) -> int:
    """Makes tokens, pages and streams of the space unavailable. Returns the number of leases released.

    Not in one transaction: the space is closed first, then the claims that were running at that moment are checked.
    Without `release`, such a claim reopens the space and raises LocksAreHeld.
    """
    if not release and (held := live_leases(space=space).count()):
        raise LocksAreHeld(held)
    _close(actor=actor, by=by, space=space)
    if release:
        return force_release_all(actor=actor, space=space, reason=f"the space {space.name} was archived")
    wait_for_statements(clock.now())
    if held := live_leases(space=space).count():
        _reopen(actor=actor, space=space)
        raise LocksAreHeld(held)
    return 0


@transaction.atomic
def restore(*, actor: Actor, by: User, space: Space) -> None:
    """Pages are available again, and so are tokens that were not revoked and have not expired."""
    lock_team_as_admin(team=space.team, by=by)
    if not Space.objects.filter(pk=space.pk, archived_at__isnull=False).update(archived_at=None):
        raise NotArchived
    record(EventKind.SPACE_RESTORED, actor=actor, space=space, detail={"space": space.name})


@transaction.atomic
def _close(*, actor: Actor, by: User, space: Space) -> None:
    lock_team_as_admin(team=space.team, by=by)
    if not Space.objects.filter(team=space.team, archived_at=None).exclude(pk=space.pk).exists():
        raise LastSpace
    if not Space.objects.filter(pk=space.pk, archived_at=None).update(archived_at=clock.ClockTimestamp()):
        raise AlreadyArchived
    record(EventKind.SPACE_ARCHIVED, actor=actor, space=space, detail={"space": space.name})


@transaction.atomic
def _reopen(*, actor: Actor, space: Space) -> None:
    Space.objects.filter(pk=space.pk).update(archived_at=None)
    detail = {"space": space.name, "archived": {"from": True, "to": False}}
    reason = "a lock was claimed while it was being archived"
    record(EventKind.SPACE_CHANGED, actor=actor, space=space, reason=reason, detail=detail)
