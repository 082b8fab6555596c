"""Watching one lock or all with a prefix: a snapshot, then every transition as it commits, as Server-Sent Events."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Literal, cast

import msgspec
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from locks.api import responses, schemas
from locks.api.errors import RETRY_AFTER_SECONDS, ApiError, Code, invalid_input, name_not_allowed
from locks.api.openapi_hooks import NAME, EventStream, OpenApiTypes, describe, query
from locks.api.parsing import name_in_path, query_choice, query_text
from locks.api.views.tokens import TokenEndpoint
from locks.async_responses import LoopStreamingResponse
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import inspect, listing
from locks.events.stream import sse
from locks.events.stream.cursors import Cursor, InvalidCursor
from locks.events.stream.event_tail import event_tail
from locks.events.stream.snapshot import Snapshot, read_snapshot
from locks.events.stream.streaming import stream
from locks.events.stream.watch_event import WatchEvent, encode
from locks.events.stream.watchers import Watcher
from locks.models import Scope, Token

# Of one server process. One space cannot use up the watchers of all others.
MAX_WATCHERS = 2_000
MAX_WATCHERS_PER_SPACE = 1_000
# Of a snapshot, which is sent in pieces.
MAX_LOCKS_PER_PIECE = 1_000
MAX_LOCKS = 10_000
RETRY_MS = 1_000

_LAST_EVENT_ID = OpenApiParameter(
    "Last-Event-ID",
    type={"type": "string", "maxLength": 4096, "pattern": "^[0-9a-f.-]+$"},
    location=OpenApiParameter.HEADER,
    description="The `id` of the last event that was received: the stream resumes after it, without a snapshot.",
)
FRAMES = ("named", "octostore")
_FRAMES = query(
    "frames",
    {"type": "string", "enum": list(FRAMES)},
    "`octostore`: frames without names, the first one `acquired` or `released` instead of a snapshot. The default in a "
    "space with OctoStore compatibility; `named` in others.",
)
_encode = msgspec.json.Encoder().encode


class SnapshotEvent(msgspec.Struct, kw_only=True):
    """The watched lock, or the held locks with the prefix, as of one moment. A large snapshot comes in several pieces;
    in the last one, `complete` is true."""

    event: Literal["snapshot"] = "snapshot"
    locks: list[schemas.Lock]
    complete: bool
    observed_at: datetime


_STREAM = EventStream(
    description="First `snapshot` events, the last of them `complete`; then `acquired`, `renewed`, `released`, "
    "`expired`, `force_released`. A comment every 15 s.",
    data=(SnapshotEvent, WatchEvent),
)


class WatchEndpoint(TokenEndpoint):
    scope = Scope.LOCKS_READ

    def watch(
        self, request: Request, *, name: str | None, prefix: str = "", has_named_frames: bool = True
    ) -> HttpResponse:
        token = cast(Token, request.auth)
        _check_capacity(token.space_id)
        resumed = _last_event_id(request)
        with read_snapshot() as snapshot:
            if resumed is None:
                cursor = snapshot.cursor
                locks = _locks(token, name=name, prefix=prefix)
                first = list(_pieces(snapshot, locks)) if has_named_frames else [_first_frame(snapshot, locks[0])]
            elif snapshot.can_resume(resumed):
                cursor, first = resumed, [sse.comment("resumed")]
            else:
                raise ApiError(
                    410,
                    Code.POSITION_EXPIRED,
                    "The events after this Last-Event-ID are no longer kept. Reconnect without it.",
                )
        watcher = Watcher(
            space_id=token.space_id,
            token_id=token.pk,
            name=name,
            prefix=prefix,
            token_prefixes=tuple(token.prefixes),
            cursor=cursor,
            has_named_frames=has_named_frames,
        )
        first[0] = sse.retry_line(RETRY_MS) + first[0]
        return LoopStreamingResponse(partial(stream, watcher, first), headers=sse.HEADERS)


class WatchLockView(WatchEndpoint):
    @describe(
        "watch_lock",
        "Stream the events of a lock",
        tag="Watching",
        scope="locks:read",
        errors=(400, 410, 422),
        parameters=[NAME, _FRAMES, _LAST_EVENT_ID],
        stream=_STREAM,
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        prefixes = tuple(cast(Token, request.auth).prefixes)
        name = name_in_path(name)
        if not name.startswith(prefixes or ("",)):
            raise name_not_allowed(name)
        default = "octostore" if cast(Token, request.auth).space.octostore_compatibility else "named"
        frames = query_choice(request._request, "frames", (default, *FRAMES))
        return self.watch(request, name=name, has_named_frames=frames == "named")


class WatchView(WatchEndpoint):
    @describe(
        "watch",
        "Stream the events of all locks with a prefix",
        tag="Watching",
        scope="locks:read",
        errors=(400, 410, 422),
        parameters=[query("prefix", OpenApiTypes.STR, "Only names that start with this."), _LAST_EVENT_ID],
        stream=_STREAM,
    )
    def get(self, request: Request) -> HttpResponse:
        return self.watch(request, name=None, prefix=query_text(request._request, "prefix") or "")


def _check_capacity(space_id: int) -> None:
    if event_tail.count_in_space(space_id) >= MAX_WATCHERS_PER_SPACE or event_tail.watcher_count >= MAX_WATCHERS:
        raise ApiError(
            503,
            Code.UNAVAILABLE,
            "Too many watchers are connected. Close some, or try again later.",
            retry_after_ms=RETRY_AFTER_SECONDS * 1000,
        )


def _last_event_id(request: Request) -> Cursor | None:
    text = request.META.get("HTTP_LAST_EVENT_ID")
    if not text:
        return None
    try:
        return Cursor.parse(text)
    except InvalidCursor:
        raise invalid_input(400, "Last-Event-ID must be the id of an event of this stream.") from None


def _locks(token: Token, *, name: str | None, prefix: str) -> list[schemas.Lock]:
    digest = bytes(token.digest).hex()
    if name is not None:
        (row,) = run(inspect([requests.Inspect(name=name, digest=digest)]))
        return [responses.inspected(row)]
    locks: list[schemas.Lock] = []
    while True:
        request = requests.Listing(
            digest=digest, prefix=prefix, status="held", sort="name", limit=MAX_LOCKS_PER_PIECE,
            after_name=locks[-1].name if locks else "",
        )  # fmt: skip
        rows = run(listing(request))
        responses.raise_api_error(rows[0], scope="locks:read")
        if rows[0].total > MAX_LOCKS:
            raise invalid_input(422, f"More than {MAX_LOCKS:,} locks are held with this prefix. Watch a longer one.")
        page = [responses.lock(row.status, row) for row in rows if row.name is not None]
        locks += page
        if len(page) < MAX_LOCKS_PER_PIECE:
            return locks


def _first_frame(snapshot: Snapshot, lock: schemas.Lock) -> bytes:
    event = WatchEvent(
        event="acquired" if lock.status == "held" else "released",
        lock_name=lock.name,
        fencing_token=lock.fencing_token,
        owner=lock.owner,
        metadata=lock.metadata,
        expires_at=lock.expires_at,
        observed_at=snapshot.now,
    )
    return sse.id_line(snapshot.cursor) + sse.without_name(encode(event))


def _pieces(snapshot: Snapshot, locks: list[schemas.Lock]) -> Iterator[bytes]:
    """Only the last piece has an id: a client that was disconnected before it gets the whole snapshot again."""
    for start in range(0, max(1, len(locks)), MAX_LOCKS_PER_PIECE):
        piece = locks[start : start + MAX_LOCKS_PER_PIECE]
        complete = start + MAX_LOCKS_PER_PIECE >= len(locks)
        event = SnapshotEvent(locks=piece, complete=complete, observed_at=snapshot.now)
        yield (sse.id_line(snapshot.cursor) if complete else b"") + sse.event(event.event, _encode(event))
