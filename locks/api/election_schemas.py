"""The requests and responses of elections, with OctoStore's fields."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from locks.api.schemas import TEXT_PATTERN, FencingToken, Milliseconds
from locks.services.elections import MAX_METADATA, MAX_TTL_SECONDS, MIN_TTL_SECONDS, TTL_SECONDS

ROOM_PATTERN = r"^[A-Za-z0-9_-]{8,64}$"
CANDIDATE_PATTERN = r"^[A-Za-z0-9._:@-]{1,64}$"

# The views check values: as in OctoStore, one out of its bounds is a 400.
Ttl: TypeAlias = Annotated[
    int, Meta(extra_json_schema={"minimum": MIN_TTL_SECONDS, "maximum": MAX_TTL_SECONDS, "default": TTL_SECONDS})
]
LeaderToken: TypeAlias = Annotated[str, Meta(description="A secret: with it, the leader renews and resigns.")]


class CampaignBody(msgspec.Struct, kw_only=True):
    candidate_id: Annotated[str, Meta(extra_json_schema={"pattern": CANDIDATE_PATTERN}, examples=["worker-west-2"])]
    ttl_seconds: Ttl | None = None
    metadata: Annotated[str, Meta(extra_json_schema={"maxLength": MAX_METADATA, "pattern": TEXT_PATTERN})] | None = None


class RenewTermBody(msgspec.Struct, kw_only=True):
    leader_token: LeaderToken
    ttl_seconds: Ttl | None = None


class ResignBody(msgspec.Struct, kw_only=True):
    leader_token: LeaderToken


class Room(msgspec.Struct, kw_only=True):
    election_id: str
    campaign_path: str
    status_path: str
    watch_path: str


class Leader(msgspec.Struct, kw_only=True):
    """`term` is the fencing token: each leader's is higher than all before."""

    candidate_id: str
    metadata: str | None
    term: FencingToken
    expires_at: datetime


class Leads(msgspec.Struct, kw_only=True, tag_field="status", tag="leader"):
    """The caller leads. Renew after `renew_after_ms`."""

    election_id: str
    leader: Leader
    leader_token: LeaderToken
    renew_after_ms: Milliseconds


class Follows(msgspec.Struct, kw_only=True, tag_field="status", tag="follower"):
    """Another candidate leads. Campaign again after `retry_after_ms`, or when the stream says `vacant`."""

    election_id: str
    leader: Leader
    retry_after_ms: Milliseconds


class Resigned(msgspec.Struct, kw_only=True, tag_field="status", tag="vacant"):
    election_id: str
    previous_term: FencingToken


class ElectionState(msgspec.Struct, kw_only=True):
    election_id: str
    status: Literal["leader", "vacant"]
    leader: Leader | None
    retry_after_ms: Milliseconds


class StateEvent(ElectionState, kw_only=True):
    """The data of an event of the stream."""

    schema_version: Literal[1] = 1
    observed_at: datetime


def state(
    event_type: type[ElectionState], *, room: str, leader: Leader | None, now: datetime, **fields: datetime
) -> ElectionState:
    remaining = max(0, int((leader.expires_at - now).total_seconds() * 1000)) if leader else 0
    return event_type(
        election_id=room,
        status="leader" if leader else "vacant",
        leader=leader,
        retry_after_ms=remaining,
        **fields,
    )
