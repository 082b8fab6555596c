"""Events as the API and the exports show them. The history never contains a lease id."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from locks.models import Event, Token


class HistoryActor(msgspec.Struct, kw_only=True):
    """The person, token or system that acted, with its name at the time."""

    kind: Literal["token", "user", "system"]
    name: str


class HistoryEvent(msgspec.Struct, kw_only=True):
    """`token` is the public id of the token concerned: the holder's, or the one that was issued or revoked.
    `overdue_ms` is how long after the expiry of a lease its end was recorded."""

    id: int
    at: datetime
    kind: str
    lock_name: str | None
    fencing_token: int | None
    owner: str | None
    holder_id: str | None
    metadata: str | None
    token: str | None
    actor: HistoryActor
    channel: Literal["api", "web", "cli", "task"]
    address: str | None
    request_id: str | None
    reason: str | None
    held_ms: int | None
    overdue_ms: int | None
    detail: dict[str, Any] | None


def serialize(events: Sequence[Event]) -> list[HistoryEvent]:
    """With one query more, for the tokens."""
    public_ids = dict(
        Token.objects.filter(pk__in={event.token_id for event in events if event.token_id}).values_list(
            "pk", "public_id"
        )
    )
    return [_serialize(event, public_ids) for event in events]


def _serialize(event: Event, public_ids: dict[int, str]) -> HistoryEvent:
    return HistoryEvent(
        id=event.pk,
        at=event.at,
        kind=event.kind,
        lock_name=event.lock_name,
        fencing_token=event.fencing_token,
        owner=event.owner,
        holder_id=event.holder_id,
        metadata=event.metadata,
        token=public_ids.get(event.token_id) if event.token_id else None,
        actor=HistoryActor(kind=event.actor_kind, name=event.actor_name),  # type: ignore[arg-type]  # a text column
        channel=event.channel,  # type: ignore[arg-type]  # a text column
        address=event.address,
        request_id=event.request_id,
        reason=event.reason,
        held_ms=event.held_ms,
        overdue_ms=event.recorded_late_ms,
        detail=event.detail,
    )
