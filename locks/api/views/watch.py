"""Watching one lock or all with a prefix: a snapshot, then every transition as it commits, as Server-Sent Events."""

from collections import deque
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
from locks.api.limits import limits
from locks.api.openapi_hooks import NAME, EventStream, OpenApiTypes, describe, query
from locks.api.parsing import check_prefix, name_in_path, query_choice, query_text
from locks.api.run_names import show_names, stored_name, visible_run_names
from locks.api.views.tokens import TokenEndpoint
from locks.async_responses import LoopStreamingResponse
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import inspect, listing
from locks.events.stream import sse
from locks.events.stream.cursors import Cursor, InvalidCursor
from locks.events.stream.event_tail import event_tail
from locks.events.stream.memory import Account, stream_memory
from locks.events.stream.snapshot import Snapshot, read_snapshot
from locks.events.stream.streaming import stream
from locks.events.stream.watch_event import WatchEvent, encode
from locks.events.stream.watchers import Watcher
from locks.models import Scope, Token
from locks.runs.names import PREFIXES

# Of one server process. One team, with as many spaces as it likes, cannot use up the watchers of all others.
MAX_WATCHERS = 2_000
MAX_WATCHERS_PER_TEAM = 1_000
# Of a snapshot, which is sent in pieces.
MAX_LOCKS_PER_PIECE = 1_000
MAX_LOCKS = 10_000
MAX_SNAPSHOT_BYTES = 16 * 1024 * 1024
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


class ResetEvent(msgspec.Struct, kw_only=True):
    """The database was replaced by another server since the Last-Event-ID that was sent. Events may be missing, and
    events that were sent may be void: the snapshot that follows replaces everything that the client knows."""

    event: Literal["reset"] = "reset"
    # The name or the prefix that is watched.
    lock_name: str
    observed_at: datetime


_STREAM = EventStream(
    description="First `snapshot` events, the last of them `complete`; then `acquired`, `renewed`, `released`, "
    "`expired`, `force_released`. With a Last-Event-ID from before a failover of the database, `reset` comes first. A "
    "comment every 15 s.",
    data=(SnapshotEvent, ResetEvent, WatchEvent),
)


class WatchEndpoint(TokenEndpoint):
    scope = Scope.LOCKS_READ

    def watch(
        self, request: Request, *, name: str | None, prefix: str = "", has_named_frames: bool = True
    ) -> HttpResponse:
        token = cast(Token, request.auth)
        _check_capacity(token.space.team_id)
        resumed = _last_event_id(request)
        account = stream_memory.open(token.space.team_id)
        pieces: deque[bytes] = deque()
        with read_snapshot() as snapshot:
            is_reset = resumed is not None and not snapshot.has_timeline_of(resumed)
            if resumed is None or is_reset:
                cursor = snapshot.cursor
                if is_reset and has_named_frames:
                    reset = ResetEvent(lock_name=name or prefix, observed_at=snapshot.now)
                    _keep(account, pieces, sse.event(reset.event, _encode(reset)))
                pages = _pages(token, name=name, prefix=prefix)
                frames = _pieces(snapshot, pages) if has_named_frames else _first_frame(snapshot, pages)
                for frame in frames:
                    _keep(account, pieces, frame)
            elif snapshot.can_resume(resumed):
                cursor = resumed
                _keep(account, pieces, sse.comment("resumed"))
            else:
                raise ApiError(
                    410,
                    Code.POSITION_EXPIRED,
                    "The events after this Last-Event-ID are no longer kept. Reconnect without it.",
                )
        names = visible_run_names(bytes(token.digest))
        watcher = Watcher(
            space_id=token.space_id,
            token_id=token.pk,
            name=name,
            prefix=prefix,
            token_prefixes=tuple(token.prefixes),
            cursor=cursor,
            account=account,
            snapshot=pieces,
            has_named_frames=has_named_frames,
            run_names=None if names is None else dict(zip(names, PREFIXES, strict=True)),
        )
        return LoopStreamingResponse(partial(stream, watcher), headers=sse.HEADERS)


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
        name = stored_name(name_in_path(name, self.rules(request)), bytes(cast(Token, request.auth).digest))
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
        prefix = check_prefix(query_text(request._request, "prefix") or "", self.rules(request))
        return self.watch(request, name=None, prefix=stored_name(prefix, bytes(cast(Token, request.auth).digest)))


def _check_capacity(team_id: int) -> None:
    if event_tail.count_in_team(team_id) >= MAX_WATCHERS_PER_TEAM or event_tail.watcher_count >= MAX_WATCHERS:
        raise _unavailable("Too many watchers are connected. Close some, or try again later.")


def _keep(account: Account, pieces: deque[bytes], piece: bytes) -> None:
    if not pieces:
        piece = sse.retry_line(RETRY_MS) + piece
    if sum(map(len, pieces)) + len(piece) > MAX_SNAPSHOT_BYTES:
        raise invalid_input(422, "The locks with this prefix are too large for one snapshot. Watch a longer one.")
    if not account.take(len(piece)):
        raise _unavailable("Other watchers have not read their snapshots yet. Try again later.")
    pieces.append(piece)


def _unavailable(details: str) -> ApiError:
    return ApiError(503, Code.UNAVAILABLE, details, retry_after_ms=RETRY_AFTER_SECONDS * 1000)


def _last_event_id(request: Request) -> Cursor | None:
    text = request.META.get("HTTP_LAST_EVENT_ID")
    if not text:
        return None
    try:
        return Cursor.parse(text)
    except InvalidCursor:
        raise invalid_input(400, "Last-Event-ID must be the id of an event of this stream.") from None


def _pages(token: Token, *, name: str | None, prefix: str) -> Iterator[tuple[list[schemas.Lock], bool]]:
    """The locks of the snapshot, a page at a time, each with whether it is the last one."""
    digest = bytes(token.digest).hex()
    if name is not None:
        (row,) = run(inspect([requests.Inspect(name=name, digest=digest)]))
        show_names((row,), bytes(token.digest))
        yield [responses.inspected(row)], True
        return
    page = _page(token, prefix, after="")
    while len(page) == MAX_LOCKS_PER_PIECE and (
        following := _page(token, prefix, after=stored_name(page[-1].name, bytes(token.digest)))
    ):
        yield page, False
        page = following
    yield page, True


def _page(token: Token, prefix: str, *, after: str) -> list[schemas.Lock]:
    digest = bytes(token.digest)
    request = requests.Listing(
        digest=digest.hex(), prefix=prefix, status="held", sort="name", limit=MAX_LOCKS_PER_PIECE, after_name=after,
        visible_run_names=visible_run_names(digest),
    )  # fmt: skip
    rows = run(listing(request))
    responses.raise_api_error(rows[0], scope="locks:read")
    limits.charge_rows(digest, len(rows))
    if rows[0].total > MAX_LOCKS:
        raise invalid_input(422, f"More than {MAX_LOCKS:,} locks are held with this prefix. Watch a longer one.")
    show_names(rows, digest)
    return [responses.lock(row.status, row) for row in rows if row.name is not None]


def _first_frame(snapshot: Snapshot, pages: Iterator[tuple[list[schemas.Lock], bool]]) -> Iterator[bytes]:
    """For clients that know unnamed messages only: the state of the one lock, as the event that led to it."""
    ((lock,), _complete) = next(pages)
    event = WatchEvent(
        event="acquired" if lock.status == "held" else "released",
        lock_name=lock.name,
        fencing_token=lock.fencing_token,
        owner=lock.owner,
        metadata=lock.metadata,
        expires_at=lock.expires_at,
        observed_at=snapshot.now,
    )
    yield sse.id_line(snapshot.cursor) + sse.without_name(encode(event))


def _pieces(snapshot: Snapshot, pages: Iterator[tuple[list[schemas.Lock], bool]]) -> Iterator[bytes]:
    """Only the last piece has an id: a client that was disconnected before it gets the whole snapshot again."""
    for locks, complete in pages:
        event = SnapshotEvent(locks=locks, complete=complete, observed_at=snapshot.now)
        yield (sse.id_line(snapshot.cursor) if complete else b"") + sse.event(event.event, _encode(event))
