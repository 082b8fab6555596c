"""Watching one lock or all with a prefix: a snapshot, then every transition as it happens, as Server-Sent Events."""

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
from locks.api.parsing import check_name, query_text
from locks.api.views.tokens import TokenEndpoint
from locks.async_responses import LoopStreamingResponse
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import inspect, listing
from locks.events.stream.cursors import BadCursor, Cursor
from locks.events.stream.live_poller import event_tail
from locks.events.stream.snapshot import Snapshot, one_snapshot
from locks.events.stream.sse import WatchEvent, comment, id_line, named
from locks.events.stream.streaming import stream
from locks.events.stream.watchers import Watcher
from locks.models import Scope, Token

# In one server process. No space can take the places of all the others.
MAX_WATCHERS = 2_000
MAX_IN_A_SPACE = 1_000
# A snapshot is sent in pieces of this many locks, and has no more altogether than this.
LOCKS_AT_ONCE = 1_000
MAX_LOCKS = 10_000
RETRY_MS = 1_000

_LAST_EVENT_ID = OpenApiParameter(
    "Last-Event-ID",
    type={"type": "string", "maxLength": 4096, "pattern": "^[0-9a-f.-]+$"},
    location=OpenApiParameter.HEADER,
    description="The `id` of the last event that was seen: goes on after it, without a snapshot.",
)
_encode = msgspec.json.Encoder().encode


class SnapshotEvent(msgspec.Struct, kw_only=True):
    """The lock that is watched, or the held ones with the prefix, as of one moment. Large ones come in several pieces;
    with the last, `complete` is true."""

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

    def watch(self, request: Request, *, name: str | None, prefix: str = "") -> HttpResponse:
        token = cast(Token, request.auth)
        _check_room(token.space_id)
        last_seen = _last_seen(request)
        with one_snapshot() as snapshot:
            if last_seen is None:
                bookmark = snapshot.bookmark
                first = list(_told(snapshot, _locks(token, name=name, prefix=prefix), bookmark))
            elif snapshot.reaches_back_to(last_seen):
                bookmark, first = last_seen, [comment("going on")]
            else:
                raise ApiError(
                    410,
                    Code.POSITION_EXPIRED,
                    "What happened since this Last-Event-ID is no longer kept. Start anew, without it.",
                )
        watcher = Watcher(
            space_id=token.space_id,
            token_id=token.pk,
            name=name,
            prefix=prefix,
            prefixes=tuple(token.prefixes),
            bookmark=bookmark,
        )
        first[0] = b"retry: %d\n%s" % (RETRY_MS, first[0])
        return LoopStreamingResponse(
            partial(stream, watcher, first),
            headers={
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                # Proxies that collect answers before they pass them on would hold the news back.
                "X-Accel-Buffering": "no",
            },
        )


class WatchLockView(WatchEndpoint):
    @describe(
        "watch_lock",
        "Be told what becomes of a lock",
        tag="Watching",
        scope="locks:read",
        errors=(400, 410),
        parameters=[NAME, _LAST_EVENT_ID],
        stream=_STREAM,
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        prefixes = tuple(cast(Token, request.auth).prefixes)
        if not check_name(name).startswith(prefixes or ("",)):
            raise name_not_allowed(name)
        return self.watch(request, name=name)


class WatchView(WatchEndpoint):
    @describe(
        "watch",
        "Be told what becomes of all locks with a prefix",
        tag="Watching",
        scope="locks:read",
        errors=(400, 410, 422),
        parameters=[query("prefix", OpenApiTypes.STR, "Only names that start with this."), _LAST_EVENT_ID],
        stream=_STREAM,
    )
    def get(self, request: Request) -> HttpResponse:
        return self.watch(request, name=None, prefix=query_text(request._request, "prefix") or "")


def _check_room(space_id: int) -> None:
    if event_tail.number_in(space_id) >= MAX_IN_A_SPACE or event_tail.number_of_watchers >= MAX_WATCHERS:
        raise ApiError(
            503,
            Code.UNAVAILABLE,
            "As many watchers as there may be are connected already. End some, or try again later.",
            retry_after_ms=RETRY_AFTER_SECONDS * 1000,
        )


def _last_seen(request: Request) -> Cursor | None:
    text = request.META.get("HTTP_LAST_EVENT_ID")
    if not text:
        return None
    try:
        return Cursor.parse(text)
    except BadCursor:
        raise invalid_input(400, "Last-Event-ID must be the id of an event of this stream.") from None


def _locks(token: Token, *, name: str | None, prefix: str) -> list[schemas.Lock]:
    digest = bytes(token.digest).hex()
    if name is not None:
        (found,) = run(inspect([requests.Inspect(name=name, digest=digest)]))
        return [responses.inspected(found)]
    locks: list[schemas.Lock] = []
    while True:
        asked = requests.Listing(
            digest=digest, prefix=prefix, status="held", sort="name", limit=LOCKS_AT_ONCE,
            after_name=locks[-1].name if locks else "",
        )  # fmt: skip
        rows = run(listing(asked))
        responses.raise_api_error(rows[0], scope="locks:read")
        if rows[0].total > MAX_LOCKS:
            raise invalid_input(422, f"More than {MAX_LOCKS:,} locks are held with this prefix. Take a longer one.")
        page = [responses.lock(row.status, row) for row in rows if row.name is not None]
        locks += page
        if len(page) < LOCKS_AT_ONCE:
            return locks


def _told(snapshot: Snapshot, locks: list[schemas.Lock], bookmark: Cursor) -> Iterator[bytes]:
    """The id comes with the last piece: whoever has not got all of it gets all of it again."""
    for start in range(0, max(1, len(locks)), LOCKS_AT_ONCE):
        piece = locks[start : start + LOCKS_AT_ONCE]
        complete = start + LOCKS_AT_ONCE >= len(locks)
        event = SnapshotEvent(locks=piece, complete=complete, observed_at=snapshot.now)
        yield (id_line(bookmark) if complete else b"") + named(event.event, _encode(event))
