"""Endpoints for leader elections without an account, as OctoStore has them; 404 unless they are turned on."""

import asyncio
import re
import secrets
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
from django.conf import settings
from django.http import Http404, HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from locks import metrics
from locks.api import election_schemas as schemas
from locks.api.base_view import ApiView, json_response, record_use, request_id
from locks.api.election_limits import Admission, election_limits
from locks.api.errors import ApiError, Code, invalid_input, unreachable
from locks.api.lease_options import idempotency
from locks.api.openapi_hooks import EventStream, describe
from locks.api.parsing import check_text, decoder, parse_body
from locks.api.responses import MAX_FROZEN_RETRY_MS, raise_api_error, renew_after_ms
from locks.async_responses import LoopStreamingResponse, Receive, Send
from locks.engine import requests, results
from locks.engine.operations import acquire, inspect, release, renew
from locks.engine.verdicts import Verdict
from locks.events.stream import sse
from locks.events.stream.cursors import Cursor
from locks.events.stream.memory import stream_memory
from locks.events.stream.snapshot import read_snapshot
from locks.events.stream.streaming import stream
from locks.events.stream.watch_event import WatchEvent
from locks.events.stream.watchers import CloseReason, Watcher
from locks.services import elections
from locks.services.elections import MAX_METADATA, MAX_TTL_SECONDS, MIN_TTL_SECONDS, TTL_SECONDS, run_one

# All campaigns use one token, so a key is all that tells a candidate from others: it must not be guessed.
MIN_KEY = 16
RETRY_MS = 1_000
LIFE_SECONDS = 900.0
CAPACITY_RETRY_MS = 30_000

# Listed from the start, with the value 0.
for _result in ("leader", "follower", "refused"):
    metrics.campaigns.labels(_result)

_ROOM = re.compile(schemas.ROOM_PATTERN)
_CANDIDATE = re.compile(schemas.CANDIDATE_PATTERN)
_CAMPAIGN = decoder(schemas.CampaignBody)
_RENEW = decoder(schemas.RenewTermBody)
_RESIGN = decoder(schemas.ResignBody)
_WATCH_EVENT = decoder(WatchEvent)
_encode = msgspec.json.Encoder().encode

_ROOM_PARAMETER = OpenApiParameter(
    "room",
    type={"type": "string", "pattern": schemas.ROOM_PATTERN},
    location=OpenApiParameter.PATH,
    description="The id of the room: one that was created, or any other that the candidates agree on.",
)
_KEY_PARAMETER = OpenApiParameter(
    "Idempotency-Key",
    type={"type": "string", "minLength": MIN_KEY, "maxLength": 255, "pattern": "^[!-~]+$"},
    location=OpenApiParameter.HEADER,
    description="Random, and known to this candidate only: a retry with the same key returns the same leader token, "
    "for when the winning response was lost.",
)


class ElectionEndpoint(ApiView):
    authentication_classes = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if not settings.PUBLIC_ELECTIONS:
            raise Http404
        room = kwargs.get("room")
        if room is not None and not _ROOM.fullmatch(room):
            raise invalid_input(400, "The id of a room has 8 to 64 letters, digits, '-' and '_'.")
        super().initial(request, *args, **kwargs)

    def caller(self, request: Request, room: str) -> dict[str, Any]:
        return {
            "digest": elections.digest().hex(),
            "request_id": request_id(request),
            "address": request.META.get("REMOTE_ADDR"),
            "name": room,
        }


class ElectionsView(ElectionEndpoint):
    @describe(
        "create_election",
        "Create a room",
        tag="Elections",
        needs_token=False,
        responses={201: schemas.Room},
        errors=(404,),
        description="Needs no token and no body. The id is random: share it with the candidates only.",
    )
    def post(self, request: Request) -> HttpResponse:
        election_limits.check_request(request.META.get("REMOTE_ADDR"))
        room = secrets.token_urlsafe(24)
        path = f"/elections/{room}"
        message = schemas.Room(
            election_id=room, campaign_path=f"{path}/campaign", status_path=path, watch_path=f"{path}/watch"
        )
        return json_response(message, status=201)


class CampaignView(ElectionEndpoint):
    @describe(
        "campaign",
        "Campaign for leadership",
        tag="Elections",
        needs_token=False,
        body=schemas.CampaignBody,
        responses={200: schemas.Leads | schemas.Follows},
        errors=(404, 409),
        parameters=[_ROOM_PARAMETER, _KEY_PARAMETER],
        description="The first candidate of a vacant room leads until its term expires or it resigns. 409 with the "
        "code `capacity_exceeded`: too many rooms have a leader.",
    )
    def post(self, request: Request, room: str) -> HttpResponse:
        election_limits.check_request(request.META.get("REMOTE_ADDR"))
        body = parse_body(request._request, _CAMPAIGN)
        if not _CANDIDATE.fullmatch(body.candidate_id):
            raise invalid_input(400, "candidate_id has 1 to 64 letters, digits and . _ : @ -")
        if body.metadata is not None and len(body.metadata) > MAX_METADATA:
            raise invalid_input(400, f"metadata may have at most {MAX_METADATA} characters.")
        options = {
            "owner": body.candidate_id,
            "metadata": check_text("metadata", body.metadata),
            "ttl_seconds": _ttl(body.ttl_seconds),
        }
        if (key := request.META.get("HTTP_IDEMPOTENCY_KEY")) is not None:
            if len(key) < MIN_KEY:
                raise invalid_input(422, f"Idempotency-Key must be random, and have at least {MIN_KEY} characters.")
            options |= idempotency(key, options)
        campaign = requests.Acquire(**self.caller(request, room), **options)
        outcome = run_one(lambda: acquire([campaign]))
        try:
            message = _campaigned(room, outcome)
        except ApiError:
            metrics.campaigns.labels("refused").inc()
            raise
        metrics.campaigns.labels("leader" if isinstance(message, schemas.Leads) else "follower").inc()
        return json_response(message)


class RenewView(ElectionEndpoint):
    @describe(
        "renew_term",
        "Renew leadership",
        tag="Elections",
        needs_token=False,
        body=schemas.RenewTermBody,
        responses={200: schemas.Leads},
        errors=(404,),
        parameters=[_ROOM_PARAMETER],
        description="Sets the expiry to now plus the TTL; the term stays the same. 404 with the code "
        "`lease_not_current`: the caller does not lead any more and must stop.",
    )
    def post(self, request: Request, room: str) -> HttpResponse:
        body = parse_body(request._request, _RENEW)
        caller = self.caller(request, room)
        renewal = requests.Renew(lease_id=_lease_id(body.leader_token), ttl_seconds=_ttl(body.ttl_seconds), **caller)
        renewed = run_one(lambda: renew([renewal]))
        _check(renewed)
        leader, _now = _leader(requests.Inspect(**caller))
        if leader is None or leader.term != renewed.fencing_token:
            raise _not_current()
        return json_response(
            schemas.Leads(
                election_id=room,
                leader=leader,
                leader_token=body.leader_token,
                renew_after_ms=renew_after_ms(renewed.expires_at, renewed.now),
            )
        )


class ResignView(ElectionEndpoint):
    @describe(
        "resign",
        "Resign",
        tag="Elections",
        needs_token=False,
        body=schemas.ResignBody,
        responses={200: schemas.Resigned},
        errors=(404,),
        parameters=[_ROOM_PARAMETER],
        description="The room is vacant at once.",
    )
    def post(self, request: Request, room: str) -> HttpResponse:
        body = parse_body(request._request, _RESIGN)
        resignation = requests.Release(lease_id=_lease_id(body.leader_token), **self.caller(request, room))
        outcome = run_one(lambda: release([resignation]))
        _check(outcome)
        assert outcome.fencing_token is not None
        return json_response(schemas.Resigned(election_id=room, previous_term=outcome.fencing_token))


class ElectionView(ElectionEndpoint):
    @describe(
        "election_status",
        "Inspect a room",
        tag="Elections",
        needs_token=False,
        responses={200: schemas.ElectionState},
        errors=(400, 404),
        parameters=[_ROOM_PARAMETER],
        description="200 for every valid id: a room that was never used is vacant.",
    )
    def get(self, request: Request, room: str) -> HttpResponse:
        leader, now = _leader(requests.Inspect(**self.caller(request, room)))
        return json_response(schemas.state(schemas.ElectionState, room=room, leader=leader, now=now))


class WatchView(ElectionEndpoint):
    @describe(
        "watch_election",
        "Stream the state of a room",
        tag="Elections",
        needs_token=False,
        errors=(400, 404),
        parameters=[_ROOM_PARAMETER],
        stream=EventStream(
            description="A `state` event with the present state, and one after each change or renewal. A comment every "
            "15 s. The stream ends after 15 minutes; it cannot be resumed, and what it says is a hint: read the status "
            "before you act on it.",
            data=(schemas.StateEvent,),
        ),
    )
    def get(self, request: Request, room: str) -> HttpResponse:
        admission = election_limits.admit_stream(request.META.get("REMOTE_ADDR"))
        token = elections.token()
        with read_snapshot() as snapshot:
            leader, now = _leader(requests.Inspect(**self.caller(request, room)))
        watcher = ElectionWatcher(
            space_id=token.space_id,
            token_id=token.pk,
            name=room,
            cursor=snapshot.cursor,
            account=stream_memory.open(token.space.team_id),
        )
        first = sse.retry_line(RETRY_MS) + _frame(room, leader, now)
        if not watcher.account.take(len(first)):
            raise ApiError(503, Code.UNAVAILABLE, "Other streams have not been read yet.", retry_after_ms=RETRY_MS)
        watcher.snapshot = deque([first])
        return LoopStreamingResponse(partial(_stream, watcher, admission), headers=sse.HEADERS)


@dataclass(eq=False, kw_only=True)
class ElectionWatcher(Watcher):
    """Gets the events of the room's lock as states of the election, without ids: the stream cannot be resumed."""

    def keepalive(self, _cursor: Cursor) -> bytes:
        return sse.comment("no events")

    def _frame_with_id(self, chunk: bytes, cursor: Cursor) -> bytes:
        return self._frame(chunk)

    def _frame(self, chunk: bytes) -> bytes:
        event: WatchEvent = _WATCH_EVENT.decode(chunk.partition(b"data: ")[2])
        leader = None
        if event.event in ("acquired", "renewed"):
            if event.expires_at is None or event.owner is None or event.fencing_token is None:
                # The term had ended before it was read; its end is the next event.
                return b""
            leader = schemas.Leader(
                candidate_id=event.owner,
                metadata=event.metadata,
                term=event.fencing_token,
                expires_at=event.expires_at,
            )
        return _frame(self.name or "", leader, event.observed_at)


async def _stream(watcher: Watcher, admission: Admission, receive: Receive, send: Send) -> None:
    end_of_life = asyncio.get_running_loop().call_later(LIFE_SECONDS, watcher.close, CloseReason.LIFETIME)
    metrics.election_streams.inc()
    try:
        await stream(watcher, receive, send)
    finally:
        end_of_life.cancel()
        metrics.election_streams.dec()
        admission.close()


def _frame(room: str, leader: schemas.Leader | None, now: datetime) -> bytes:
    state = schemas.state(schemas.StateEvent, room=room, leader=leader, now=now, observed_at=now)
    return sse.event("state", _encode(state))


def _ttl(ttl_seconds: int | None) -> int:
    if ttl_seconds is None:
        return TTL_SECONDS
    if not MIN_TTL_SECONDS <= ttl_seconds <= MAX_TTL_SECONDS:
        details = f"ttl_seconds must be a whole number from {MIN_TTL_SECONDS} to {MAX_TTL_SECONDS}."
        raise ApiError(400, Code.INVALID_TTL, details)
    return ttl_seconds


def _lease_id(leader_token: str) -> UUID:
    try:
        return UUID(leader_token)
    except ValueError:
        raise _not_current() from None


def _not_current() -> ApiError:
    return ApiError(404, Code.LEASE_NOT_CURRENT, "This token does not lead the room, or not any more. Stop the work.")


def _check(outcome: results.Acquired | results.Renewed | results.Released | results.Inspected) -> None:
    """Raises ApiError for every verdict that ends the request."""
    match outcome.verdict:
        case Verdict.HELD_BY_ANOTHER | Verdict.NOT_HELD | Verdict.MAX_HOLD_REACHED:
            raise _not_current()
        case Verdict.SPACE_FULL:
            raise ApiError(
                409,
                Code.CAPACITY_EXCEEDED,
                "Too many rooms have a leader. Try again later.",
                retry_after_ms=CAPACITY_RETRY_MS,
            )
        case Verdict.UNAUTHENTICATED | Verdict.SCOPE_MISSING:
            # A superuser has archived the space of all rooms.
            raise Http404
    record_use(outcome, digest=elections.digest(), address=None, agent="elections")
    raise_api_error(outcome, scope="locks:write")


def _campaigned(room: str, outcome: results.Acquired) -> schemas.Leads | schemas.Follows:
    _check(outcome)
    if outcome.verdict == Verdict.DELAYED:
        assert outcome.available_at is not None
        wait_ms = int((outcome.available_at - outcome.now).total_seconds() * 1000)
        details = "The room is closed for a while after its leader was removed. Try again after Retry-After."
        if outcome.freeze is not None:
            details = f"Elections are frozen: {outcome.freeze['reason']}. Try again after Retry-After."
            wait_ms = min(wait_ms, MAX_FROZEN_RETRY_MS)
        raise ApiError(503, Code.UNAVAILABLE, details, retry_after_ms=max(1, wait_ms))
    assert outcome.owner is not None
    leader = schemas.Leader(
        candidate_id=outcome.owner,
        metadata=outcome.metadata,
        term=outcome.fencing_token,
        expires_at=outcome.expires_at,
    )
    match outcome.verdict:
        case Verdict.ACQUIRED | Verdict.RECOGNISED:
            assert outcome.lease_id is not None
            return schemas.Leads(
                election_id=room,
                leader=leader,
                leader_token=outcome.lease_id.hex,
                renew_after_ms=renew_after_ms(outcome.expires_at, outcome.now),
            )
        case Verdict.HELD:
            remaining = int((outcome.expires_at - outcome.now).total_seconds() * 1000)
            return schemas.Follows(election_id=room, leader=leader, retry_after_ms=max(1, remaining))
    unreachable(outcome.verdict)


def _leader(request: requests.Inspect) -> tuple[schemas.Leader | None, datetime]:
    """The present leader, and the time of the database."""
    outcome = run_one(lambda: inspect([request]))
    _check(outcome)
    if outcome.verdict != Verdict.HELD:
        return None, outcome.now
    assert outcome.owner is not None
    assert outcome.expires_at is not None
    leader = schemas.Leader(
        candidate_id=outcome.owner,
        metadata=outcome.metadata,
        term=outcome.fencing_token,
        expires_at=outcome.expires_at,
    )
    return leader, outcome.now
