"""The actor of a change, and its audit event."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from locks.models import ActorKind, Channel, Event, EventKind, Space, Team, Token, User


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who acts, and through which channel. The name is kept as it was at that time."""

    kind: ActorKind
    name: str
    channel: Channel
    id: int | None = None
    address: str | None = None
    request_id: str | None = None

    @classmethod
    def of_user(cls, user: User, *, address: str | None = None, request_id: str | None = None) -> "Actor":
        return cls(
            kind=ActorKind.USER,
            id=user.pk,
            name=user.get_username(),
            channel=Channel.WEB,
            address=address,
            request_id=request_id,
        )

    @classmethod
    def of_request(cls, request: HttpRequest, user: User | None = None) -> "Actor":
        """`user` is given where the request is not signed in yet."""
        return cls.of_user(
            user or current_user(request), address=request.META.get("REMOTE_ADDR"), request_id=request_id(request)
        )

    @classmethod
    def of_token(cls, token: Token, *, address: str | None = None, request_id: str | None = None) -> "Actor":
        return cls(
            kind=ActorKind.TOKEN,
            id=token.pk,
            name=token.name,
            channel=Channel.API,
            address=address,
            request_id=request_id,
        )

    @classmethod
    def of_shell(cls) -> "Actor":
        """For `manage.py` on the server."""
        return cls(kind=ActorKind.SYSTEM, name="manage.py", channel=Channel.CLI)


def current_user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user


def request_id(request: HttpRequest) -> str:
    """Set by the middleware for every request."""
    return str(request.request_id)  # type: ignore[attr-defined]  # the middleware's attribute


def record(
    kind: EventKind,
    *,
    actor: Actor,
    team: Team | None = None,
    space: Space | None = None,
    token: Token | None = None,
    lock_name: str | None = None,
    fencing_token: int | None = None,
    owner: str | None = None,
    reason: str | None = None,
    detail: dict[str, Any] | None = None,
) -> Event:
    return Event.objects.create(
        kind=kind,
        team_id=space.team_id if space else team.pk if team else None,
        space_id=space.pk if space else None,
        token_id=token.pk if token else None,
        lock_name=lock_name,
        fencing_token=fencing_token,
        owner=owner,
        actor_kind=actor.kind,
        actor_id=actor.id,
        actor_name=actor.name,
        channel=actor.channel,
        address=actor.address,
        request_id=actor.request_id,
        reason=reason,
        detail=detail,
    )
