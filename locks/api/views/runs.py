"""Endpoints for runs: start, list, inspect, drain, finish, export; and their layers and actors."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, cast
from uuid import UUID

import msgspec
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from msgspec import Meta
from rest_framework.request import Request

from locks.api import schemas
from locks.api.base_view import json_response, no_content, request_id
from locks.api.errors import ApiError, Code, invalid_input, scope_missing
from locks.api.exceptions import not_found
from locks.api.openapi_hooks import OpenApiTypes, describe, query
from locks.api.parsing import check_text, decoder, parse_body, query_choice, query_cursor, query_number
from locks.api.responses import KEEPALIVES_PER_TTL
from locks.api.views.kv import PutBody, checked_path, put_request, written
from locks.api.views.tokens import TokenEndpoint
from locks.engine.execution import run as run_operation
from locks.models import EventKind, Run, RunActor, RunActorRole, RunState, Scope, Token
from locks.models.run import DEFAULT_DEPTH, IDLE_SECONDS, MAX_DEPTH, MAX_IDLE_SECONDS
from locks.models.session import MAX_SESSION_SECONDS, MIN_SESSION_SECONDS, SESSION_SECONDS
from locks.pagination import Moment, encode
from locks.runs import kv, lifecycle, queries
from locks.runs.export import export_response
from locks.runs.identities import find_identity
from locks.runs.kv_paths import is_valid_actor_name
from locks.services.audit import record

MIN_IDLE_SECONDS = 10
MAX_PAGE = 1000

RunName: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=128, extra_json_schema={"pattern": schemas.TEXT_PATTERN})
]
ActorId: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        description="Letters, digits and `. _ @ + = ~ -`; unique in the run. Not `self`.",
        examples=["worker-1"],
        extra_json_schema={"pattern": "^[A-Za-z0-9_@+=~-]+$"},
    ),
]
State: TypeAlias = Literal["active", "draining", "finished"]

RUN_ID = OpenApiParameter(
    "run_id", type={"type": "string", "format": "uuid"}, location=OpenApiParameter.PATH, description="The run."
)
ACTOR_ID = OpenApiParameter(
    "actor_id",
    type={"type": "string", "maxLength": 64, "pattern": "^[A-Za-z0-9_@+=~-]+$"},
    location=OpenApiParameter.PATH,
    description="The actor.",
)


class StartBody(msgspec.Struct, kw_only=True):
    """`ttl_seconds`: the run finishes when its lead is silent for so long. `max_depth`: how many layers may be below
    each other, the root included. `dump`: keep an export when the run finishes. `session_ttl_seconds`: of the lead."""

    name: RunName | None = None
    metadata: schemas.Metadata | None = None
    ttl_seconds: Annotated[int, Meta(ge=MIN_IDLE_SECONDS, le=MAX_IDLE_SECONDS)] = IDLE_SECONDS
    max_depth: Annotated[int, Meta(ge=1, le=MAX_DEPTH)] = DEFAULT_DEPTH
    dump: bool = False
    session_ttl_seconds: schemas.SessionTtl | None = None


class LayerBody(msgspec.Struct, kw_only=True):
    """`lead` is the actor id of the new layer's lead. `initial_ref` are its first entries below /ref. `read_down`: the
    lead of the parent layer may read the store."""

    lead: ActorId
    name: RunName | None = None
    initial_ref: dict[str, Any] = {}
    read_down: bool = False
    session_ttl_seconds: schemas.SessionTtl | None = None


class ActorBody(msgspec.Struct, kw_only=True):
    """`ttl_seconds` is the TTL of the actor's session."""

    actor_id: ActorId
    ttl_seconds: schemas.SessionTtl | None = None


class FinishBody(msgspec.Struct, kw_only=True):
    reason: Annotated[str, Meta(max_length=500, extra_json_schema={"pattern": schemas.TEXT_PATTERN})] | None = None


class Joined(msgspec.Struct, kw_only=True):
    """The only response that contains the plaintext of the actor's token. `expires_at` is when the session ends unless
    it is kept alive."""

    run_id: UUID
    layer_id: UUID
    actor_id: str
    role: Literal["lead", "worker"]
    token: str
    session_id: UUID
    expires_at: datetime
    keepalive_interval_secs: Annotated[int, Meta(ge=1)]


class RunSummary(msgspec.Struct, kw_only=True):
    run_id: UUID
    name: str
    metadata: str | None
    state: State
    ttl_seconds: int
    max_depth: int
    dump: bool
    lead: str | None
    layer_count: int
    actors_present: int
    leases: int
    waiting: int
    created_at: datetime
    last_sign_of_life_at: datetime
    draining_at: datetime | None
    finished_at: datetime | None
    finish_reason: str | None


class Counters(msgspec.Struct, kw_only=True):
    kv: int
    kv_denied: int
    lease: int
    lease_denied: int
    lease_contended: int


class ActorDescription(msgspec.Struct, kw_only=True):
    actor_id: str
    role: Literal["lead", "worker"]
    present: bool
    token: Annotated[str, Meta(description="The public id of its token.")]
    joined_at: datetime
    last_heartbeat_at: datetime | None
    expires_at: datetime | None
    ended_at: datetime | None
    end_reason: str | None
    leases: int
    waiting: int
    counters: Counters


class LayerDescription(msgspec.Struct, kw_only=True):
    """Layers come depth first. `keys` and `bytes` are of its store."""

    layer_id: UUID
    parent_id: UUID | None
    name: str
    depth: int
    read_down: bool
    keys: int
    bytes: int
    actors: list[ActorDescription]


class RunLease(msgspec.Struct, kw_only=True):
    name: str
    holder: str
    layer_id: UUID
    fencing_token: schemas.FencingToken
    metadata: str | None
    acquired_at: datetime
    expires_at: datetime
    waiters: int


class RunDescription(RunSummary, kw_only=True):
    layers: list[LayerDescription]
    held: list[RunLease]


class RunPage(msgspec.Struct, kw_only=True):
    runs: list[RunSummary]
    next_cursor: str | None


class RunCursor(msgspec.Struct, kw_only=True):
    at: Moment
    id: UUID


_START = decoder(StartBody)
_LAYER = decoder(LayerBody)
_ACTOR = decoder(ActorBody)
_FINISH = decoder(FinishBody)


class RunEndpoint(TokenEndpoint):
    def own_actor(self, request: Request) -> RunActor | None:
        token = cast(Token, request.auth)
        if token.actor_session_id is None:
            return None
        actor = token.run_actor
        actor.token = token
        return actor

    def check_run(self, request: Request, run_id: UUID, *, scope: Scope) -> None:
        """An actor sees its own run, a token with the scope every run of its space; other runs are not found."""
        actor = self.own_actor(request)
        if actor is not None and actor.run_id != run_id:
            raise not_found()
        token = cast(Token, request.auth)
        if not Run.objects.filter(pk=run_id, space_id=token.space_id).exists():
            raise not_found()
        if actor is None and scope not in token.scopes:
            raise scope_missing(scope)

    def lead(self, request: Request, run_id: UUID) -> RunActor:
        actor = self.own_actor(request)
        self.check_run(request, run_id, scope=Scope.RUNS_MANAGE)
        if actor is None or actor.role != RunActorRole.LEAD:
            caller = actor.name if actor else cast(Token, request.auth).name
            raise ApiError(
                403, Code.FORBIDDEN, f"{caller} is not a lead of this run. Send the request with a lead's own token."
            )
        return actor


class RunsView(RunEndpoint):
    scope = None

    @describe(
        "start_run",
        "Start a run",
        tag="Runs",
        scope="runs:manage",
        body=StartBody,
        body_required=False,
        responses={201: Joined},
        description="With a root layer and its lead, whose token is in the response. Its scopes and prefixes are those "
        "of the caller's token, at most.",
        examples=[OpenApiExample("a nightly run", {"name": "nightly", "ttl_seconds": 600}, request_only=True)],
    )
    def post(self, request: Request) -> HttpResponse:
        _require(request, Scope.RUNS_MANAGE)
        body = parse_body(request._request, _START)
        creator = cast(Token, request.auth)
        if not set(lifecycle.INHERITED_SCOPES) & set(creator.scopes):
            raise ApiError(
                403,
                Code.FORBIDDEN,
                "The actors of a run inherit scopes of this token, and it has none for them: it lacks 'locks:read' and "
                "'locks:write'.",
            )
        metadata = check_text("metadata", body.metadata)
        if metadata is not None and len(metadata) > creator.space.max_metadata_length:
            limit = creator.space.max_metadata_length
            raise invalid_input(400, f"metadata may have at most {limit} characters in this space.")
        with _refusals():
            joined = lifecycle.start(
                actor=self.actor(request),
                creator=creator,
                name=check_text("name", body.name),
                metadata=metadata,
                ttl_seconds=body.ttl_seconds,
                max_depth=body.max_depth,
                dump=body.dump,
                session_ttl_seconds=_session_ttl(body.session_ttl_seconds),
            )
        return _joined(joined)

    @describe(
        "list_runs",
        "List runs",
        tag="Runs",
        scope="runs:manage",
        responses={200: RunPage},
        errors=(422,),
        parameters=[
            query("state", {"type": "string", "enum": ["all", "unfinished", *RunState.values]}, "Default: all."),
            query("limit", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE}, "Default: 100."),
            query("cursor", OpenApiTypes.STR, "The `next_cursor` of the previous page."),
        ],
        description="The latest first. An actor gets its own run only.",
    )
    def get(self, request: Request) -> HttpResponse:
        state = query_choice(request._request, "state", ("all", "unfinished", *RunState.values))
        limit = query_number(request._request, "limit", default=100, minimum=1, maximum=MAX_PAGE)
        cursor = query_cursor(request._request, RunCursor)
        token = cast(Token, request.auth)
        if (actor := self.own_actor(request)) is not None:
            own = queries.find_run(space=token.space, run_id=actor.run_id)
            return json_response(RunPage(runs=[_summary(own)] if own else [], next_cursor=None))
        _require(request, Scope.RUNS_MANAGE)
        rows = queries.runs(
            space=token.space,
            state="" if state == "all" else state,
            limit=limit + 1,
            before=(cursor.at, cursor.id) if cursor else None,
        )
        page, more = rows[:limit], len(rows) > limit
        next_cursor = encode(RunCursor(at=page[-1].created_at, id=page[-1].id)) if more else None
        return json_response(RunPage(runs=[_summary(row) for row in page], next_cursor=next_cursor))


class RunView(RunEndpoint):
    @describe(
        "inspect_run",
        "Inspect a run",
        tag="Runs",
        scope="runs:manage",
        responses={200: RunDescription},
        errors=(404,),
        parameters=[RUN_ID],
        description="The tree of layers and actors, and the leases they hold. Also for the actors of the run.",
    )
    def get(self, request: Request, run_id: UUID) -> HttpResponse:
        self.check_run(request, run_id, scope=Scope.RUNS_MANAGE)
        return json_response(_description(request, run_id))


class DrainView(RunEndpoint):
    @describe(
        "drain_run",
        "Drain a run",
        tag="Runs",
        scope="runs:manage",
        responses={200: RunDescription},
        errors=(404, 409),
        parameters=[RUN_ID],
        description="New leases, actors and layers are refused; renewals, releases and the store go on. Also for the "
        "lead of the root layer.",
    )
    def post(self, request: Request, run_id: UUID) -> HttpResponse:
        _check_manages(self, request, run_id)
        try:
            lifecycle.drain(actor=self.actor(request), run_id=run_id, space=cast(Token, request.auth).space)
        except lifecycle.RunFinished:
            raise ApiError(409, Code.CONFLICT, "The run has finished. Start a new one.") from None
        return json_response(_description(request, run_id))


class FinishView(RunEndpoint):
    @describe(
        "finish_run",
        "Finish a run",
        tag="Runs",
        scope="runs:manage",
        body=FinishBody,
        body_required=False,
        responses={200: RunDescription},
        errors=(404,),
        parameters=[RUN_ID],
        description="All tokens of the run are revoked and all of its leases freed, in one transaction. Also for the "
        "lead of the root layer. A run that has finished stays as it is.",
    )
    def post(self, request: Request, run_id: UUID) -> HttpResponse:
        body = parse_body(request._request, _FINISH)
        _check_manages(self, request, run_id)
        lifecycle.finish(
            actor=self.actor(request),
            run_id=run_id,
            space=cast(Token, request.auth).space,
            reason=(check_text("reason", body.reason) or "").strip() or None,
        )
        return json_response(_description(request, run_id))


class LayersView(RunEndpoint):
    max_body = kv.MAX_VALUE_BYTES

    @describe(
        "add_layer",
        "Add a layer with its lead",
        tag="Runs",
        body=LayerBody,
        responses={201: Joined},
        errors=(403, 404, 409),
        parameters=[RUN_ID],
        description="Below the layer of the calling lead. The response has the token of the new lead.",
    )
    def post(self, request: Request, run_id: UUID) -> HttpResponse:
        body = parse_body(request._request, _LAYER, max_size=self.max_body)
        lead = self.lead(request, run_id)
        _check_actor_id(body.lead)

        def fill(joined: lifecycle.Joined) -> None:
            """As the new lead, which alone may write /ref of its layer."""
            identity = find_identity(bytes(joined.actor.token.digest))
            assert identity is not None
            puts = [
                put_request(
                    checked_path(identity, f"ref/{path.removeprefix('/').removeprefix('ref/')}", action="write"),
                    PutBody(value=msgspec.Raw(msgspec.json.encode(value))),
                    digest=bytes(joined.actor.token.digest).hex(),
                    request_id=request_id(request),
                )
                for path, value in body.initial_ref.items()
            ]
            for outcome in run_operation(kv.put(puts)) if puts else ():
                written(outcome)

        with _refusals():
            joined = lifecycle.add_layer(
                actor=self.actor(request),
                lead=lead,
                name=check_text("name", body.name),
                sublead=body.lead,
                read_down=body.read_down,
                session_ttl_seconds=_session_ttl(body.session_ttl_seconds),
                fill=fill,
            )
        return _joined(joined)


class ActorsView(RunEndpoint):
    @describe(
        "add_actor",
        "Add a worker to the lead's layer",
        tag="Runs",
        body=ActorBody,
        responses={201: Joined},
        errors=(403, 404, 409),
        parameters=[RUN_ID],
        description="The response has the token of the worker.",
        examples=[OpenApiExample("a worker", {"actor_id": "worker-1", "ttl_seconds": 30}, request_only=True)],
    )
    def post(self, request: Request, run_id: UUID) -> HttpResponse:
        body = parse_body(request._request, _ACTOR)
        lead = self.lead(request, run_id)
        _check_actor_id(body.actor_id)
        with _refusals():
            joined = lifecycle.add_worker(
                actor=self.actor(request),
                lead=lead,
                name=body.actor_id,
                session_ttl_seconds=_session_ttl(body.ttl_seconds),
            )
        return _joined(joined)


class ActorView(RunEndpoint):
    @describe(
        "end_actor",
        "End an actor",
        tag="Runs",
        responses={204: None},
        errors=(403, 404),
        parameters=[RUN_ID, ACTOR_ID],
        description="By itself, by a lead of its layer or a layer above, or with the scope `runs:manage`. Its token is "
        "revoked, its leases are free at once, and its requests leave every queue.",
    )
    def delete(self, request: Request, run_id: UUID, actor_id: str) -> HttpResponse:
        self.check_run(request, run_id, scope=Scope.RUNS_MANAGE)
        own = self.own_actor(request)
        target = RunActor.objects.select_related("layer").filter(run=run_id, name=actor_id, ended_at=None).first()
        if target is None:
            raise not_found()
        if own is not None and own.pk != target.pk and not _leads(own, target):
            raise ApiError(
                403,
                Code.FORBIDDEN,
                f"{own.name} may not end {actor_id}: only {actor_id} itself, a lead of its layer or of one above may.",
            )
        by = own.name if own is not None else cast(Token, request.auth).name
        reason = "the actor has left the run" if own is not None and own.pk == target.pk else f"ended by {by}"
        try:
            lifecycle.end_actor(actor=self.actor(request), run_actor=target, reason=reason)
        except lifecycle.ActorNotFound:
            raise not_found() from None
        return no_content()


class ExportView(RunEndpoint):
    @describe(
        "export_run",
        "Export a run",
        tag="Runs",
        scope="runs:manage",
        responses={200: dict[str, Any]},
        errors=(404,),
        parameters=[RUN_ID],
        description="One snapshot of all layers: entries, leases, actors and waiters, without lease ids. Of a finished "
        "run that was started with `dump`, the snapshot of its end. Also for the lead of the root layer.",
    )
    def get(self, request: Request, run_id: UUID) -> HttpResponseBase:
        _check_manages(self, request, run_id)
        token = cast(Token, request.auth)
        response = export_response(run_id, team_id=token.space.team_id, actor=("token", token.pk))
        record(
            EventKind.RUN_EXPORTED,
            actor=self.actor(request),
            space=token.space,
            token=lifecycle.lead_token(run_id),
            detail={"run_id": str(run_id)},
        )
        return response


@contextmanager
def _refusals() -> Iterator[None]:
    """The exceptions of the lifecycle as errors of the API."""
    try:
        yield
    except lifecycle.RunDraining:
        details = "The run is draining: it accepts no new actors and layers. Finish the work."
        raise ApiError(409, Code.RUN_DRAINING, details) from None
    except lifecycle.TooDeep as error:
        raise ApiError(409, Code.CONFLICT, f"{error} Start the run with a larger max_depth.") from None
    except lifecycle.SpaceFull as error:
        raise ApiError(403, Code.LOCK_LIMIT_EXCEEDED, str(error)) from None
    except lifecycle.ActorExists:
        details = "The run has an actor of this name. Choose another, or end that one first."
        raise ApiError(409, Code.CONFLICT, details) from None


def _require(request: Request, scope: Scope) -> None:
    if scope not in cast(Token, request.auth).scopes:
        raise scope_missing(scope)


def _check_manages(view: RunEndpoint, request: Request, run_id: UUID) -> None:
    """The scope, or the lead of the root layer."""
    view.check_run(request, run_id, scope=Scope.RUNS_MANAGE)
    own = view.own_actor(request)
    if own is not None and (own.role != RunActorRole.LEAD or own.layer.parent_id is not None):
        raise ApiError(
            403, Code.FORBIDDEN, f"{own.name} may not do this: only the lead of the root layer and runs:manage may."
        )


def _check_actor_id(actor_id: str) -> None:
    if not is_valid_actor_name(actor_id):
        raise invalid_input(
            422, "An actor id has 1 to 64 letters, digits and . _ @ + = ~ - and is not 'self', '.' or '..'."
        )


def _leads(lead: RunActor, target: RunActor) -> bool:
    """Whether it is the lead of the target's layer or of one above."""
    if lead.role != RunActorRole.LEAD:
        return False
    layer = target.layer
    while layer is not None:
        if layer.pk == lead.layer_id:
            return True
        layer = layer.parent  # type: ignore[assignment]  # null for the root
    return False


def _session_ttl(ttl_seconds: int | None) -> int:
    if ttl_seconds is None:
        return SESSION_SECONDS
    return max(MIN_SESSION_SECONDS, min(MAX_SESSION_SECONDS, ttl_seconds))


def _joined(joined: lifecycle.Joined) -> HttpResponse:
    actor = joined.actor
    response = json_response(
        Joined(
            run_id=actor.run_id,
            layer_id=actor.layer_id,
            actor_id=actor.name,
            role=actor.role,  # type: ignore[arg-type]  # a text column
            token=joined.plaintext,
            session_id=actor.session_id,
            expires_at=joined.expires_at,
            keepalive_interval_secs=joined.session_ttl_seconds // KEEPALIVES_PER_TTL,
        ),
        status=201,
    )
    response["Cache-Control"] = "no-store"
    return response


def _summary_fields(row: queries.RunRow) -> dict[str, Any]:
    return {
        "run_id": row.id, "name": row.name, "metadata": row.metadata, "state": row.state,
        "ttl_seconds": row.ttl_seconds, "max_depth": row.max_depth, "dump": row.dump, "lead": row.lead,
        "layer_count": row.layers, "actors_present": row.actors, "leases": row.leases, "waiting": row.waiting,
        "created_at": row.created_at, "last_sign_of_life_at": row.last_sign_of_life_at,
        "draining_at": row.draining_at, "finished_at": row.finished_at, "finish_reason": row.finish_reason,
    }  # fmt: skip


def _summary(row: queries.RunRow) -> RunSummary:
    return RunSummary(**_summary_fields(row))


def _description(request: Request, run_id: UUID) -> RunDescription:
    row = queries.find_run(space=cast(Token, request.auth).space, run_id=run_id)
    if row is None:
        raise not_found()
    return RunDescription(
        **_summary_fields(row),
        layers=[_layer_description(node) for node in queries.layers(run_id)],
        held=[
            RunLease(
                name=lease.short_name,
                holder=lease.holder,
                layer_id=lease.layer_id,
                fencing_token=lease.fencing_token,
                metadata=lease.metadata,
                acquired_at=lease.acquired_at,
                expires_at=lease.expires_at,
                waiters=lease.waiters,
            )
            for lease in queries.leases(run_id)
        ],
    )


def _layer_description(node: queries.LayerNode) -> LayerDescription:
    return LayerDescription(
        layer_id=node.layer.pk,
        parent_id=node.layer.parent_id,
        name=node.layer.name,
        depth=node.layer.depth,
        read_down=node.layer.read_down,
        keys=node.layer.kv_keys,
        bytes=node.layer.kv_bytes,
        actors=[_actor_description(actor) for actor in node.actors],
    )


def _actor_description(actor: queries.ActorRow) -> ActorDescription:
    return ActorDescription(
        actor_id=actor.name,
        role=actor.role,  # type: ignore[arg-type]  # a text column
        present=actor.is_present,
        token=actor.public_id,
        joined_at=actor.created_at,
        last_heartbeat_at=actor.last_keepalive_at,
        expires_at=actor.expires_at,
        ended_at=actor.ended_at,
        end_reason=actor.end_reason,
        leases=actor.leases,
        waiting=actor.waiting,
        counters=Counters(
            kv=actor.kv_calls,
            kv_denied=actor.kv_denied,
            lease=actor.lease_calls,
            lease_denied=actor.lease_denied,
            lease_contended=actor.lease_contended,
        ),
    )
