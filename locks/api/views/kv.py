"""Endpoints for the key-value store of a layer."""

import asyncio
import base64
import binascii
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

import msgspec
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from msgspec import UNSET, Meta, UnsetType
from rest_framework.request import Request

from locks.api import responses
from locks.api.base_view import LockApiView, json_response, no_content, presented
from locks.api.errors import RETRY_AFTER_SECONDS, ApiError, Code, authentication_failed, invalid_input, unreachable
from locks.api.errors import unavailable as database_unavailable
from locks.api.openapi_hooks import OpenApiTypes, describe, query
from locks.api.parsing import ENCODED_SLASH, decoder, query_cursor, query_flag, query_number
from locks.api.schemas import MAX_WAIT_SECONDS
from locks.async_responses import DeferredResponse, Receive, wait_for_disconnect
from locks.engine.execution import Unavailable, run
from locks.engine.verdicts import Verdict
from locks.pagination import Text, encode
from locks.queue.wait_queue import ShuttingDown
from locks.runs import kv
from locks.runs.counters import actor_counters
from locks.runs.identities import Identity, find_identity
from locks.runs.kv_paths import AccessDenied, InvalidPath, KvPath, check_access, parse_glob, parse_path
from locks.runs.kv_waiting import TooManyWaiting, kv_waiters

MAX_KV_BODY = 1536 * 1024
MAX_PAGE = 1000
MAX_VERSION = 2**53 - 1

Version: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_VERSION)]
Encoding: TypeAlias = Literal["json", "text", "base64"]

PATH = OpenApiParameter(
    "path",
    type={"type": "string", "pattern": r"^(ref|peer|shared)(/[A-Za-z0-9_:@+=~,-]+)+$", "maxLength": 500},
    location=OpenApiParameter.PATH,
    description="A path below `ref`, `peer/<actor>`, `peer/self` or `shared`.",
    examples=[OpenApiExample("a finding", "shared/findings/1")],
)
_LAYER = query(
    "layer",
    {"type": "string", "format": "uuid"},
    "A layer directly below the caller's, with `read_down`. Only for a lead.",
)
_VERSION = {"type": "integer", "minimum": 0, "maximum": MAX_VERSION}


class PutBody(msgspec.Struct, kw_only=True):
    """`value` is any JSON; with encoding `text` a string, with `base64` a string of base64. `expected_version` makes it
    a compare-and-swap: 0 means that the entry must not exist."""

    value: msgspec.Raw
    encoding: Encoding = "json"
    expected_version: Version | None = None
    override: bool = False


class PutBodyDocument(msgspec.Struct, kw_only=True):
    """`value` is any JSON; with encoding `text` a string, with `base64` a string of base64. `expected_version` makes it
    a compare-and-swap: 0 means that the entry must not exist. `override` lets a lead write below another's /peer."""

    value: Any
    encoding: Encoding = "json"
    expected_version: Version | None = None
    override: bool = False


class Written(msgspec.Struct, kw_only=True):
    path: str
    version: Version


class Entry(msgspec.Struct, kw_only=True):
    """`timed_out` is true if the wait timed out; then the fields of an entry that does not exist are null."""

    path: str
    value: Any
    encoding: Encoding | None
    version: Version
    written_by: str | None
    written_at: datetime | None
    timed_out: bool | UnsetType = UNSET


class EntryMetadata(msgspec.Struct, kw_only=True):
    path: str
    version: Version
    encoding: Encoding
    size: Annotated[int, Meta(ge=0)]
    written_by: str
    written_at: datetime


class Entries(msgspec.Struct, kw_only=True):
    entries: list[EntryMetadata]
    next_cursor: str | None


class PathCursor(msgspec.Struct, kw_only=True):
    path: Text


_PUT = decoder(PutBody)
_encode = msgspec.json.Encoder().encode
_TEXT = msgspec.json.Decoder(str)


class StoreView(LockApiView):
    max_body = MAX_KV_BODY

    def identity(self, request: Request, scope: Literal["locks:read", "locks:write"]) -> Identity:
        actor = find_identity(presented(request).digest)
        if actor is None:
            # The statement says whether the token is invalid, lacks the scope, or is valid but no actor's.
            caller = self.caller(request)
            if scope == "locks:read":
                self.finish(request, run(kv.get([kv.KvGet(path="", **caller)]))[0], scope=scope)
            else:
                self.finish(request, run(kv.delete(kv.KvDelete(path="", **caller))), scope=scope)
            raise authentication_failed()
        return actor

    def finish(self, request: Request, outcome: Any, *, scope: str = "locks:read") -> None:
        """Records the use, and raises the refusal of the statement."""
        self.record_use(request, outcome)
        responses.raise_api_error(outcome, scope=scope)


def checked_path(
    actor: Identity, text: str, *, action: Literal["read", "write"], override: bool = False, as_lead: bool = False
) -> KvPath:
    """The canonical form of the path in an address. Raises ApiError."""
    try:
        path = parse_path("/" + text.replace(ENCODED_SLASH, "/"), caller=actor.name)
        check_access(actor, path, action=action, override=override, as_lead=as_lead)
    except InvalidPath as error:
        raise invalid_input(400, str(error)) from None
    except AccessDenied as error:
        actor_counters.count_kv(actor.id, None)
        raise ApiError(403, Code.FORBIDDEN, str(error)) from None
    return path


class EntriesView(StoreView):
    @describe(
        "list_entries",
        "List entries of the layer's store",
        tag="Store",
        scope="locks:read",
        responses={200: Entries},
        errors=(400, 404, 410, 422),
        parameters=[
            query("glob", OpenApiTypes.STR, "`*` and `?` match within a segment, `**` across. Default: `/**`."),
            query("limit", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE}, f"{MAX_PAGE} by default."),
            query("cursor", OpenApiTypes.STR, "The `next_cursor` of the previous page."),
            _LAYER,
        ],
        description="Sorted by path, without values: only what the caller may read.",
    )
    def get(self, request: Request) -> HttpResponse:
        actor = self.identity(request, "locks:read")
        try:
            glob = parse_glob(request._request.GET.get("glob") or "/**", caller=actor.name)
        except InvalidPath as error:
            raise invalid_input(400, str(error)) from None
        limit = query_number(request._request, "limit", default=MAX_PAGE, minimum=1, maximum=MAX_PAGE)
        after = query_cursor(request._request, PathCursor)
        rows = run(
            kv.listing(
                digest=presented(request).digest.hex(),
                layer_id=_layer(request),
                prefix=glob.prefix,
                pattern=glob.pattern,
                after=after.path if after else "",
                limit=limit + 1,
            )
        )
        self.finish(request, rows[0])
        entries = [
            EntryMetadata(
                path=row.name,
                version=row.version,
                encoding=row.encoding,  # type: ignore[arg-type]  # a text column
                size=row.size,
                written_by=row.written_by,
                written_at=row.written_at,
            )
            for row in rows[:limit]
            if row.name is not None
        ]
        more = len(rows) > limit
        return json_response(
            Entries(entries=entries, next_cursor=encode(PathCursor(path=entries[-1].path)) if more else None)
        )


class EntryView(StoreView):
    @describe(
        "get_entry",
        "Read an entry, or wait until it is written",
        tag="Store",
        scope="locks:read",
        responses={200: Entry},
        errors=(400, 404, 410, 422),
        parameters=[
            PATH,
            query("min_version", _VERSION, "With `wait_seconds`: the version to wait for. Default: 1."),
            query(
                "wait_seconds",
                {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_SECONDS},
                "How long to wait. When the time is up, the answer is the entry as it is, with `timed_out`.",
            ),
            _LAYER,
        ],
    )
    def get(self, request: Request, path: str) -> HttpResponse:
        actor = self.identity(request, "locks:read")
        layer_id = _layer(request)
        checked = checked_path(actor, path, action="read", as_lead=layer_id is not None and actor.is_lead)
        params = request._request.GET
        min_version = query_number(request._request, "min_version", default=1, minimum=0, maximum=MAX_VERSION)
        seconds = query_number(request._request, "wait_seconds", default=0, minimum=0, maximum=MAX_WAIT_SECONDS)
        waits = "min_version" in params or "wait_seconds" in params
        caller = self.caller(request)
        read = kv.KvGet(path=checked.text, layer_id=layer_id, min_version=max(min_version, 1), **caller)
        (found,) = run(kv.get([read]))
        self.finish(request, found)
        if found.verdict == Verdict.FOUND or not waits:
            return json_response(entry(found))
        if seconds:
            assert found.layer_id is not None
            return _defer(read, layer_id=found.layer_id, seconds=seconds)
        (present,) = run(kv.get([kv.KvGet(path=checked.text, layer_id=layer_id, **caller)]))
        self.finish(request, present)
        return json_response(_timed_out(present))

    @describe(
        "put_entry",
        "Write an entry",
        tag="Store",
        scope="locks:write",
        body=PutBodyDocument,
        responses={200: Written},
        errors=(404, 410, 412),
        parameters=[
            PATH,
            query("override", OpenApiTypes.BOOL, "Lets the lead of the layer write below another actor's /peer."),
        ],
        examples=[OpenApiExample("a counter", {"value": 41, "expected_version": 7}, request_only=True)],
    )
    def put(self, request: Request, path: str) -> HttpResponse:
        actor = self.identity(request, "locks:write")
        body = self.body(request, _PUT)
        override = query_flag(request._request, "override") or body.override
        checked = checked_path(actor, path, action="write", override=override)
        (outcome,) = run(kv.put([put_request(checked, body, **self.caller(request))]))
        self.finish(request, outcome, scope="locks:write")
        return json_response(written(outcome))

    @describe(
        "delete_entry",
        "Delete an entry",
        tag="Store",
        scope="locks:write",
        responses={204: None},
        errors=(400, 404, 410, 412, 422),
        parameters=[
            PATH,
            query("expected_version", _VERSION, "Delete only this version; otherwise 412."),
            query("override", OpenApiTypes.BOOL, "Lets the lead of the layer delete below another actor's /peer."),
        ],
        description="A new entry of the same path continues after the version that was deleted.",
    )
    def delete(self, request: Request, path: str) -> HttpResponse:
        actor = self.identity(request, "locks:write")
        params = request._request.GET
        override = query_flag(request._request, "override")
        checked = checked_path(actor, path, action="write", override=override)
        expected = None
        if "expected_version" in params:
            expected = query_number(request._request, "expected_version", default=0, minimum=0, maximum=MAX_VERSION)
        outcome = run(kv.delete(kv.KvDelete(path=checked.text, expected_version=expected, **self.caller(request))))
        self.finish(request, outcome, scope="locks:write")
        match outcome.verdict:
            case Verdict.DELETED:
                return no_content()
            case Verdict.VERSION_MISMATCH:
                raise version_mismatch(outcome)
            case Verdict.UNKNOWN:
                raise no_entry(outcome.name)
        unreachable(outcome.verdict)


def _layer(request: Request) -> UUID | None:
    text = request._request.GET.get("layer")
    try:
        return UUID(text) if text else None
    except ValueError:
        raise invalid_input(422, "layer must be the layer_id of a layer.") from None


def put_request(path: KvPath, body: PutBody, **caller: Any) -> kv.KvPut:
    """Raises ApiError."""
    value = _value(body)
    if len(value) > kv.MAX_VALUE_BYTES:
        details = f"The value has {len(value):,} bytes; an entry may have {kv.MAX_VALUE_BYTES:,}. Split it."
        raise ApiError(413, Code.STORE_LIMIT_EXCEEDED, details, which="value")
    return kv.KvPut(
        path=path.text,
        value=value,
        encoding=body.encoding,
        size=len(value),
        expected_version=body.expected_version,
        **caller,
    )


def _value(body: PutBody) -> bytes:
    if body.encoding == "json":
        return bytes(body.value)
    try:
        text = _TEXT.decode(body.value)
        return text.encode() if body.encoding == "text" else base64.b64decode(text, validate=True)
    except (msgspec.ValidationError, binascii.Error, UnicodeEncodeError):
        raise invalid_input(422, f"With encoding '{body.encoding}', value must be a string of that kind.") from None


def written(outcome: kv.KvWritten) -> Written:
    match outcome.verdict:
        case Verdict.WRITTEN:
            return Written(path=outcome.name, version=outcome.version)
        case Verdict.VERSION_MISMATCH:
            raise version_mismatch(outcome)
        case Verdict.TOO_MANY_BYTES:
            details = f"The store of the layer would exceed {kv.MAX_LAYER_BYTES:,} bytes. Delete entries first."
            raise ApiError(413, Code.STORE_LIMIT_EXCEEDED, details, which="total")
        case Verdict.TOO_MANY_KEYS:
            details = f"The store of the layer has {kv.MAX_LAYER_KEYS:,} entries already. Delete some first."
            raise ApiError(413, Code.STORE_LIMIT_EXCEEDED, details, which="keys")
    unreachable(outcome.verdict)


def version_mismatch(outcome: kv.KvWritten) -> ApiError:
    details = (
        f"{outcome.name} is at version {outcome.version}. Read it again, and retry with that version."
        if outcome.version
        else f"{outcome.name} does not exist. Retry with expected_version 0 to create it."
    )
    return ApiError(412, Code.CONFLICT, details, current_version=outcome.version)


def no_entry(path: str) -> ApiError:
    return ApiError(404, Code.NOT_FOUND, f"There is no entry {path}. Wait for it with wait_seconds, or write it first.")


def entry(found: kv.KvFound) -> Entry:
    if found.verdict != Verdict.FOUND:
        raise no_entry(found.name)
    return _entry(found)


def _timed_out(found: kv.KvFound) -> Entry:
    message = _entry(found)
    message.timed_out = True
    return message


def _entry(found: kv.KvFound) -> Entry:
    return Entry(
        path=found.name,
        value=None if found.value is None else _shown(found.value, found.encoding or ""),
        encoding=found.encoding,  # type: ignore[arg-type]  # a text column
        version=found.version,
        written_by=found.written_by,
        written_at=found.written_at,
    )


def _shown(value: bytes, encoding: str) -> msgspec.Raw | str:
    match encoding:
        case "json":
            return msgspec.Raw(value)
        case "text":
            return value.decode()
    return base64.b64encode(value).decode()


def _defer(read: kv.KvGet, *, layer_id: UUID, seconds: float) -> DeferredResponse:
    async def resolve(receive: Receive) -> tuple[int, bytes]:
        disconnected = asyncio.create_task(wait_for_disconnect(receive))
        try:
            found = await kv_waiters.wait(read, layer_id=layer_id, seconds=seconds, disconnected=disconnected)
            if found is None:
                present = await kv_waiters.read(msgspec.structs.replace(read, min_version=1))
                _check_present(present)
                return 200, _encode(_timed_out(present))
        except ShuttingDown:
            raise ApiError(
                503, Code.UNAVAILABLE, "The server is stopping. Try again; another one may answer.", retry_after_ms=1000
            ) from None
        except TooManyWaiting:
            raise ApiError(
                503, Code.UNAVAILABLE, "Too many requests wait for entries.", retry_after_ms=RETRY_AFTER_SECONDS * 1000
            ) from None
        except Unavailable:
            raise database_unavailable() from None
        finally:
            disconnected.cancel()
        _check_present(found)
        return 200, _encode(entry(found))

    return DeferredResponse(resolve, content_type="application/json")


def _check_present(found: kv.KvFound) -> None:
    """While the request waited, the actor or its whole run may have ended."""
    if found.verdict in (Verdict.UNAUTHENTICATED, Verdict.SESSION_OVER):
        raise ApiError(410, Code.SESSION_EXPIRED, "The actor or its run has ended. Stop the work.")
    responses.raise_api_error(found, scope="locks:read")
