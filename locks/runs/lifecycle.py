"""The life of a run: it starts, actors join and end, it drains, it finishes.

Every change locks the row of the run first, so changes of one run happen one after the other and each sees its state.
An actor's end revokes its token, ends its session with all leases and queue places, and is recorded, in one
transaction.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db import connection, transaction
from django.db.models import Sum
from django.db.models.functions import Now

from locks.engine.execution import run as run_operation
from locks.engine.handover import end_sessions
from locks.engine.requests import EndAndHandOver
from locks.models import EventKind, Layer, Run, RunActor, RunActorRole, RunDump, RunState, Scope, Session, Space, Token
from locks.models.session import MAX_LIVE_SESSIONS, SESSION_SECONDS
from locks.runs.export import compressed_export
from locks.runs.names import layer_prefix, run_prefix
from locks.services import clock, tokens
from locks.services.audit import Actor, record
from locks.services.force_release import authorized_by
from locks.services.teams import NotAllowed, reauthorize

ROOT_LEAD = "lead"
# What an actor may inherit. Managing tokens, webhooks and runs stays with the token that started the run.
INHERITED_SCOPES = (Scope.LOCKS_READ, Scope.LOCKS_WRITE, Scope.LOCKS_FORCE, Scope.AUDIT_READ)
# In a space, checked when a layer is added or an actor joins: requests at the same moment can exceed them by a few.
MAX_OPEN_LAYERS = 1_000
MAX_STORE_BYTES = 4 * 1024 * 1024 * 1024
# Waiting requests of the layer are checked again; see kv_waiting.py.
_NOTIFY = "SELECT pg_notify('octo_kv', layer::text) FROM unnest(%s::uuid[]) AS layer"
_LEAVE_QUEUES = """
WITH waiting AS MATERIALIZED (
    SELECT waiter.id
    FROM octo_waiter AS waiter
    JOIN octo_run_actor AS actor ON actor.token_id = waiter.token_id AND actor.session_id = waiter.session_id
    WHERE actor.run_id = %s AND waiter.handed_lease_id IS NULL
    FOR UPDATE OF waiter SKIP LOCKED
)
DELETE FROM octo_waiter AS waiter USING waiting WHERE waiter.id = waiting.id
"""


class RunNotFound(Exception):
    pass


class RunDraining(Exception):
    """The run accepts no new actors and layers."""


class RunFinished(Exception):
    pass


class TooDeep(Exception):
    """The message says how deep the run may be."""


class SpaceFull(Exception):
    """The message says which limit is reached."""


class ActorExists(Exception):
    pass


class ActorNotFound(Exception):
    pass


@dataclass(frozen=True, kw_only=True)
class Joined:
    """An actor that has joined a run, with the plaintext of its token."""

    actor: RunActor
    plaintext: str
    session_ttl_seconds: int
    expires_at: datetime


@transaction.atomic
def start(
    *, actor: Actor, creator: Token, name: str | None, metadata: str | None, ttl_seconds: int, max_depth: int,
    dump: bool, session_ttl_seconds: int = SESSION_SECONDS,
) -> Joined:  # fmt: skip
    """A run with its root layer and its lead."""
    reauthorize(actor=actor, space=creator.space)
    _check_room_for_layer(creator.space)
    run_id = uuid4()
    run = Run.objects.create(
        pk=run_id, space=creator.space, name=name or f"run {str(run_id)[:8]}", metadata=metadata,
        ttl_seconds=ttl_seconds, max_depth=max_depth, dump=dump,
    )  # fmt: skip
    layer = Layer.objects.create(run=run, name="root", depth=1)
    joined = _join(
        actor=actor, creator=creator, run=run, layer=layer, name=ROOT_LEAD, role=RunActorRole.LEAD,
        session_ttl_seconds=session_ttl_seconds,
    )  # fmt: skip
    detail = {**_detail(run), "ttl_seconds": ttl_seconds, "max_depth": max_depth}
    record(
        EventKind.RUN_STARTED, actor=actor, space=creator.space, token=joined.actor.token, owner=ROOT_LEAD,
        detail=detail,
    )  # fmt: skip
    return joined


@transaction.atomic
def add_layer(
    *, actor: Actor, lead: RunActor, name: str | None, sublead: str, read_down: bool,
    session_ttl_seconds: int = SESSION_SECONDS, fill: Callable[[Joined], None] | None = None,
) -> Joined:  # fmt: skip
    """A layer below the lead's own, with its lead. `fill` writes its first entries, in the same transaction."""
    run = _lock_open(lead)
    if lead.layer.depth >= run.max_depth:
        raise TooDeep(f"The run allows {run.max_depth} layers below each other.")
    _check_room_for_layer(run.space)
    layer = Layer.objects.create(
        run=run, parent=lead.layer, name=name or sublead, depth=lead.layer.depth + 1, read_down=read_down
    )
    joined = _join(
        actor=actor, creator=lead.token, run=run, layer=layer, name=sublead, role=RunActorRole.LEAD,
        session_ttl_seconds=session_ttl_seconds,
    )  # fmt: skip
    record(
        EventKind.LAYER_CREATED, actor=actor, space=lead.token.space, token=joined.actor.token, owner=sublead,
        detail={**_detail(run, layer), "layer": layer.name},
    )  # fmt: skip
    if fill is not None:
        fill(joined)
    return joined


@transaction.atomic
def add_worker(*, actor: Actor, lead: RunActor, name: str, session_ttl_seconds: int = SESSION_SECONDS) -> Joined:
    """In the layer of the lead."""
    return _join(
        actor=actor, creator=lead.token, run=_lock_open(lead), layer=lead.layer, name=name, role=RunActorRole.WORKER,
        session_ttl_seconds=session_ttl_seconds,
    )  # fmt: skip


def _lock_open(lead: RunActor) -> Run:
    run = Run.objects.select_for_update(no_key=True).get(pk=lead.run_id)
    # Its token was valid when the request was authenticated; under the lock it still is unless the lead has ended.
    if run.state == RunState.FINISHED or not RunActor.objects.filter(pk=lead.pk, ended_at=None).exists():
        raise NotAllowed
    if run.state == RunState.DRAINING:
        raise RunDraining
    return run


def _check_room_for_layer(space: Space) -> None:
    """Each layer has a store of up to 64 MiB, which is kept for some days after its run. Raises SpaceFull."""
    layers = Layer.objects.filter(run__space=space)
    if layers.filter(run__finished_at=None)[:MAX_OPEN_LAYERS].count() >= MAX_OPEN_LAYERS:
        raise SpaceFull(f"The space has {MAX_OPEN_LAYERS:,} layers of runs that have not finished. Finish some.")
    if (layers.aggregate(total=Sum("kv_bytes"))["total"] or 0) >= MAX_STORE_BYTES:
        raise SpaceFull(f"The stores of the space's runs have {MAX_STORE_BYTES >> 30} GiB. Delete entries.")


def _join(
    *, actor: Actor, creator: Token, run: Run, layer: Layer, name: str, role: RunActorRole, session_ttl_seconds: int
) -> Joined:
    # The row of the run is locked, so no other actor can join under this name meanwhile.
    if run.actors.filter(name=name, ended_at=None).exists():
        raise ActorExists
    live = Session.objects.filter(space=run.space, next_sweep_at__isnull=False, ended_at=None)
    if live[:MAX_LIVE_SESSIONS].count() >= MAX_LIVE_SESSIONS:
        raise SpaceFull(f"The space has {MAX_LIVE_SESSIONS:,} live sessions. End some.")
    session_id = uuid4()
    now = clock.now()
    expires_at = now + timedelta(seconds=session_ttl_seconds)
    own = [layer_prefix(layer.pk), run_prefix(run.pk)]
    inherited = [prefix for prefix in creator.prefixes if not prefix.startswith(("layer:", "run:"))]
    plaintext, token = tokens.create(
        space=run.space,
        # Unique among the names of tokens in use, because the name of an actor is unique in its run.
        name=f"{name}@{run.pk}",
        scopes=[scope for scope in INHERITED_SCOPES if scope in creator.scopes],
        prefixes=[*inherited, *own] if creator.prefixes else [],
        expires_at=creator.expires_at,
        created_by=creator.created_by,
        actor_session_id=session_id,
        is_draining=run.state == RunState.DRAINING,
    )
    Session.objects.create(
        pk=session_id, space=run.space, token=token, owner=name, ttl_seconds=session_ttl_seconds, created_at=now,
        last_keepalive_at=now, expires_at=expires_at, next_sweep_at=expires_at,
    )  # fmt: skip
    run_actor = RunActor.objects.create(run=run, layer=layer, name=name, role=role, token=token, session_id=session_id)
    record(
        EventKind.ACTOR_JOINED, actor=actor, space=run.space, token=token, owner=name,
        detail={**_detail(run, layer), "role": role, "public_id": token.public_id, "scopes": list(token.scopes)},
    )  # fmt: skip
    return Joined(actor=run_actor, plaintext=plaintext, session_ttl_seconds=session_ttl_seconds, expires_at=expires_at)


@transaction.atomic
def end_actor(*, actor: Actor, run_actor: RunActor, reason: str) -> None:
    """Raises ActorNotFound if it has ended."""
    run = Run.objects.select_for_update(no_key=True).select_related("space").get(pk=run_actor.run_id)
    present = run.actors.select_related("layer").filter(pk=run_actor.pk, ended_at=None)
    if not present:
        raise ActorNotFound
    _end(actor=actor, run=run, actors=present, reason=reason)


@transaction.atomic
def drain(*, actor: Actor, run_id: UUID, space: Space) -> Run:
    """Renewals, releases and the store go on; new leases, actors and layers are refused."""
    run = _lock(run_id, space)
    if run.state == RunState.FINISHED:
        raise RunFinished
    if run.state == RunState.DRAINING:
        return run
    run.state, run.draining_at = RunState.DRAINING, clock.now()
    run.save(update_fields=["state", "draining_at"])
    Token.objects.filter(run_actor__run=run, run_actor__ended_at=None).update(is_draining=True)
    # Requests that wait for a lease leave the queue and are refused; a handover passes over those that were missed.
    with connection.cursor() as cursor:
        cursor.execute(_LEAVE_QUEUES, [run.pk])
    record(EventKind.RUN_DRAINED, actor=actor, space=space, token=lead_token(run.pk), detail=_detail(run))
    return run


@transaction.atomic
def finish(*, actor: Actor, run_id: UUID, space: Space, reason: str | None) -> Run:
    """Revokes all tokens of the run and frees all of its leases. A run that has finished stays as it is."""
    run = _lock(run_id, space)
    if run.state == RunState.FINISHED:
        return run
    reason = reason or "the run was finished"
    lead = lead_token(run.pk)
    if run.dump:
        # Before the leases are freed: the dump shows who held what.
        content = compressed_export(run)
        if content is not None:
            RunDump.objects.create(run=run, content=content)
    _end(actor=actor, run=run, actors=run.actors.select_related("layer").filter(ended_at=None), reason=reason)
    run.state, run.finished_at, run.finish_reason = RunState.FINISHED, clock.now(), reason
    run.save(update_fields=["state", "finished_at", "finish_reason"])
    record(EventKind.RUN_FINISHED, actor=actor, space=space, token=lead, reason=reason, detail=_detail(run))
    return run


def _end(*, actor: Actor, run: Run, actors: Iterable[RunActor], reason: str) -> None:
    """The row of the run is locked. The token is revoked before the session is ended: a claim in progress that still
    saw the token as valid is bound to the session, and is over with it."""
    ending = list(actors)
    Token.objects.filter(pk__in=[each.token_id for each in ending], revoked_at=None).update(revoked_at=Now())
    RunActor.objects.filter(pk__in=[each.pk for each in ending]).update(ended_at=Now(), end_reason=reason)
    if ending:
        caller = authorized_by(actor, space_id=run.space_id)
        run_operation(
            end_sessions(
                [
                    EndAndHandOver(**caller, session_id=each.session_id, end_mode="session", reason=reason)
                    for each in ending
                ]
            )
        )
    for each in ending:
        record(
            EventKind.ACTOR_ENDED, actor=actor, space=run.space, token=each.token, owner=each.name, reason=reason,
            detail=_detail(run, each.layer),
        )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_NOTIFY, [[each.layer_id for each in ending]])


def _lock(run_id: UUID, space: Space) -> Run:
    run = Run.objects.select_for_update(no_key=True, of=("self",)).select_related("space__team").filter(
        pk=run_id, space=space
    )  # fmt: skip
    if (found := run.first()) is None:
        raise RunNotFound
    return found


def lead_token(run_id: UUID) -> Token | None:
    """The token of the root's lead, which events about the run as a whole concern."""
    leads = RunActor.objects.filter(run=run_id, layer__parent=None, role=RunActorRole.LEAD)
    lead = leads.select_related("token").order_by("pk").first()
    return lead.token if lead else None


def _detail(run: Run, layer: Layer | None = None) -> dict[str, object]:
    return {"run": run.name, "run_id": str(run.pk), **({"layer_id": str(layer.pk)} if layer else {})}


def ended_actors(batch: int) -> Sequence[RunActor]:
    """Actors whose session is over, or whose token is not valid any more, and that were not ended yet."""
    return list(
        RunActor.objects.raw(
            """
            SELECT actor.*
            FROM octo_run_actor AS actor
            JOIN octo_token AS token ON token.id = actor.token_id
            LEFT JOIN octo_session AS session ON session.id = actor.session_id
            WHERE actor.ended_at IS NULL
              AND (
                coalesce(least(session.ended_at, session.expires_at) <= clock_timestamp(), true)
                OR token.revoked_at IS NOT NULL OR token.expires_at <= clock_timestamp())
            ORDER BY actor.id
            LIMIT %s
            """,
            [batch],
        )
    )
