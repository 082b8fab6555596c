"""A team as its page shows it: members, open invitations, spaces, and what people did to all of these."""

from dataclasses import dataclass

from django.db.models import QuerySet

from locks.dashboard.database import fetch
from locks.models import Event, EventKind, Invite, Membership, Role, Space, Team, Token
from locks.pagination import Page, TimeCursor, fetch_page
from locks.services.invites import open_invites

EVENTS = 50
MAX_MEMBERS = 500


@dataclass(frozen=True, kw_only=True)
class Member:
    membership: Membership
    is_last_admin: bool

    @property
    def id(self) -> int:
        return self.membership.user_id

    @property
    def name(self) -> str:
        return self.membership.user.get_username()

    @property
    def role(self) -> str:
        return self.membership.role


@dataclass(frozen=True, kw_only=True)
class _Counts:
    id: int
    held: int
    tokens: int


@dataclass(frozen=True, kw_only=True)
class TeamSpace:
    space: Space
    held: int
    tokens: int


def members(team: Team) -> list[Member]:
    """Admins first."""
    order = {Role.ADMIN: 0, Role.OPERATOR: 1, Role.VIEWER: 2}
    found = list(Membership.objects.filter(team=team).select_related("user").order_by("user__username")[:MAX_MEMBERS])
    admins = [each.pk for each in found if each.role == Role.ADMIN and each.user.is_active]
    found.sort(key=lambda each: order[Role(each.role)])
    return [Member(membership=each, is_last_admin=[each.pk] == admins) for each in found]


def invitations(team: Team) -> list[Invite]:
    return list(open_invites().filter(team=team).order_by("-created_at")[:200])


def team_spaces(team: Team) -> tuple[list[TeamSpace], list[Space]]:
    """Those there are, and those that were archived, the latest first."""
    counts = {each.id: each for each in fetch("team/spaces", _Counts, {"team_id": team.pk})}
    spaces = Space.objects.filter(team=team).order_by("-archived_at", "name")
    there = [
        TeamSpace(space=space, held=counts[space.pk].held, tokens=counts[space.pk].tokens)
        for space in spaces
        if space.pk in counts
    ]
    return there, [space for space in spaces if space.archived_at]


def active_token_count(space: Space) -> int:
    """Once it is restored."""
    return Token.objects.active().filter(space=space).count()


def team_events(team: Team, *, cursor: TimeCursor | None = None, limit: int = EVENTS) -> Page[Event]:
    """What people did to the team, its tokens and its spaces; not what happened to locks."""
    return fetch_page(_of_team(team), by=TimeCursor, limit=limit, cursor=cursor)


# Sessions are named by no lock, and come and go with every process.
_MACHINES = (EventKind.SESSION_OPENED, EventKind.SESSION_ENDED, EventKind.SESSION_EXPIRED)


def find_team_event(team: Team, *, event_id: int) -> Event | None:
    return _of_team(team).filter(id=event_id).first()


def _of_team(team: Team) -> QuerySet[Event]:
    return Event.objects.filter(team_id=team.pk, lock_name=None).exclude(kind__in=_MACHINES)
