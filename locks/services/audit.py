"""Who acts, and the record of it."""

from dataclasses import dataclass
from typing import Any

from locks.models import ActorKind, Channel, Event, EventKind, Space, Team, Token, User


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who acts, by which way, with the name as it is now: the history keeps it when the person is gone."""

    kind: ActorKind
    name: str
    channel: Channel
    id: int | None = None
    address: str | None = None
    request_id: str | None = None

    @classmethod
    def of_user(cls, user: User, *, address: str | None = None, request_id: str | None = None) -> "Actor":
        return cls(
            kind=ActorKind.USER, id=user.pk, name=user.get_username(), channel=Channel.WEB,
            address=address, request_id=request_id,
        )  # fmt: skip

    @classmethod
    def of_token(cls, token: Token, *, address: str | None = None, request_id: str | None = None) -> "Actor":
        return cls(
            kind=ActorKind.TOKEN, id=token.pk, name=token.name, channel=Channel.API,
            address=address, request_id=request_id,
        )  # fmt: skip

    @classmethod
    def of_shell(cls) -> "Actor":
        """Whoever may run manage.py on the server."""
        return cls(kind=ActorKind.SYSTEM, name="manage.py", channel=Channel.CLI)


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
