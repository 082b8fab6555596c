"""The team as its page shows it: members, pending invitations, spaces and the audit log."""

from dataclasses import dataclass

from django.db.models import Prefetch, QuerySet

from locks.dashboard.database import fetch
from locks.models import Event, EventKind, Invite, Membership, Role, Space, SpaceRole, Team
from locks.pagination import Page, TimeCursor, fetch_page
from locks.services.invites import open_invites

EVENTS_PER_PAGE = 50
MAX_MEMBERS = 500
MAX_INVITES = 200


@dataclass(frozen=True, kw_only=True)
class Member:
    # With `space_roles` and their spaces.
    membership: Membership
    is_only_admin: bool

    @property
    def id(self) -> int:
        return self.membership.user_id

    @property
    def name(self) -> str:
        return self.membership.user.get_username()

    @property
    def role(self) -> str:
        return self.membership.role

    @property
    def space_roles(self) -> list[SpaceRole]:
        roles = [role for role in self.membership.space_roles.all() if role.space.archived_at is None]
        return sorted(roles, key=lambda role: role.space.name)


@dataclass(frozen=True, kw_only=True)
class _Counts:
    id: int
    held: int
    names: int
    events: int
    tokens: int


@dataclass(frozen=True, kw_only=True)
class TeamSpace:
    space: Space
    counts: _Counts


def members(team: Team) -> list[Member]:
    """Admins first."""
    order = {Role.ADMIN: 0, Role.OPERATOR: 1, Role.VIEWER: 2}
    memberships = Membership.objects.filter(team=team).select_related("user").order_by("user__username")
    space_roles = Prefetch("space_roles", SpaceRole.objects.select_related("space"))
    rows = sorted(
        memberships.prefetch_related(space_roles)[:MAX_MEMBERS], key=lambda membership: order[Role(membership.role)]
    )
    admins = [row.pk for row in rows if row.role == Role.ADMIN and row.user.is_active]
    return [Member(membership=row, is_only_admin=[row.pk] == admins) for row in rows]


def pending_invites(team: Team) -> list[Invite]:
    return list(open_invites().filter(team=team).order_by("-created_at")[:MAX_INVITES])


def team_spaces(team: Team) -> tuple[list[TeamSpace], list[Space]]:
    """Active spaces with their counts, and archived ones, the latest first."""
    counts = {row.id: row for row in fetch("team/spaces", _Counts, {"team_id": team.pk})}
    spaces = Space.objects.filter(team=team).order_by("-archived_at", "name")
    active = [TeamSpace(space=space, counts=counts[space.pk]) for space in spaces if space.pk in counts]
    return active, [space for space in spaces if space.archived_at]


def team_events(team: Team, *, cursor: TimeCursor | None = None, limit: int = EVENTS_PER_PAGE) -> Page[Event]:
    """What people did to the team, its tokens and its spaces; not what happened to locks."""
    return fetch_page(_events_of(team), by=TimeCursor, limit=limit, cursor=cursor)


def find_team_event(team: Team, *, event_id: int) -> Event | None:
    return _events_of(team).filter(id=event_id).first()


# Events of sessions have no lock name either, but come from programs.
_SESSION_EVENTS = (EventKind.SESSION_OPENED, EventKind.SESSION_ENDED, EventKind.SESSION_EXPIRED)


def _events_of(team: Team) -> QuerySet[Event]:
    return Event.objects.filter(team_id=team.pk, lock_name=None).exclude(kind__in=_SESSION_EVENTS)
