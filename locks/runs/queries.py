"""What there is to see of runs: lists, and the tree of layers and actors of one run. For the API and the pages."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID

from locks.models import Layer, Run, RunActor, Space
from locks.runs.names import split_stored
from locks.services.sql_files import SqlFiles

_sql = SqlFiles(Path(__file__).parent / "sql")


@dataclass(kw_only=True)
class RunRow:
    id: UUID
    name: str
    metadata: str | None
    state: str
    ttl_seconds: int
    max_depth: int
    dump: bool
    created_at: datetime
    draining_at: datetime | None
    finished_at: datetime | None
    finish_reason: str | None
    lead: str | None
    last_sign_of_life_at: datetime
    layers: int
    actors: int
    leases: int
    waiting: int


@dataclass(kw_only=True)
class ActorRow:
    id: int
    layer_id: UUID
    name: str
    role: str
    public_id: str
    created_at: datetime
    ended_at: datetime | None
    end_reason: str | None
    kv_calls: int
    kv_denied: int
    lease_calls: int
    lease_denied: int
    lease_contended: int
    last_keepalive_at: datetime | None
    expires_at: datetime | None
    is_present: bool
    leases: int
    waiting: int


@dataclass(kw_only=True)
class LeaseRow:
    name: str
    fencing_token: int
    owner: str
    metadata: str | None
    acquired_at: datetime
    renewed_at: datetime
    holder: str
    layer_id: UUID
    expires_at: datetime
    waiters: int

    @property
    def short_name(self) -> str:
        return short_name(self.name)


@dataclass(kw_only=True)
class WaiterRow:
    name: str
    actor: str
    layer_id: UUID
    enqueued_at: datetime
    deadline_at: datetime

    @property
    def short_name(self) -> str:
        return short_name(self.name)


@dataclass(kw_only=True)
class LayerNode:
    layer: Layer
    actors: list[ActorRow]


def short_name(stored: str) -> str:
    """As an actor uses it; other names as they are."""
    parts = split_stored(stored)
    return parts[2] if parts else stored


def run_of_lock(*, space: Space, name: str) -> Run | None:
    """The run that a stored name belongs to; None for every other name."""
    parts = split_stored(name)
    if parts is None:
        return None
    kind, key, _short = parts
    runs_of_space = Run.objects.filter(space=space)
    return runs_of_space.filter(pk=key).first() if kind == "run" else runs_of_space.filter(layers__pk=key).first()


def token_ids(*, space: Space, run_id: UUID) -> tuple[int, ...]:
    """Of all actors that the run has had: every event of the run concerns one of them."""
    return tuple(RunActor.objects.filter(run=run_id, run__space=space).values_list("token_id", flat=True))


def runs(
    *, space: Space, state: str = "", limit: int = 100, before: tuple[datetime, UUID] | None = None
) -> list[RunRow]:
    return _fetch(space, state=state, limit=limit, before=before)


def find_run(*, space: Space, run_id: UUID) -> RunRow | None:
    return next(iter(_fetch(space, run_id=run_id, limit=1)), None)


def _fetch(
    space: Space, *, run_id: UUID | None = None, state: str = "", limit: int,
    before: tuple[datetime, UUID] | None = None,
) -> list[RunRow]:  # fmt: skip
    before_at, before_id = before or (None, None)
    return _sql.fetch(
        "runs",
        RunRow,
        {
            "space_id": space.pk, "run_id": run_id, "state": state, "limit": limit, "before_at": before_at,
            "before_id": before_id,
        },
    )  # fmt: skip


def layers(run_id: UUID) -> list[LayerNode]:
    """Depth first: each layer comes after its parent, and before the next child of that."""
    actors = _sql.fetch("actors", ActorRow, {"run_id": run_id})
    children: dict[UUID | None, list[Layer]] = {}
    for layer in Layer.objects.filter(run=run_id).order_by("created_at", "id"):
        children.setdefault(layer.parent_id, []).append(layer)
    nodes: list[LayerNode] = []

    def visit(layer: Layer) -> None:
        nodes.append(LayerNode(layer=layer, actors=[each for each in actors if each.layer_id == layer.pk]))
        for child in children.get(layer.pk, ()):
            visit(child)

    for root in children.get(None, ()):
        visit(root)
    return nodes


def leases(run_id: UUID) -> list[LeaseRow]:
    return _sql.fetch("leases", LeaseRow, {"run_id": run_id})


def waiters(run_id: UUID) -> list[WaiterRow]:
    return _sql.fetch("waiters", WaiterRow, {"run_id": run_id})
