"""Runs: the list, and one run with its layers, actors, leases and stores; drain, finish, end an actor, export."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from locks.dashboard.access import SpaceContext, actor, current_user, space_required
from locks.dashboard.dialogs import dialog, refusal
from locks.dashboard.downloads import refused_export
from locks.dashboard.form_rendering import form_status
from locks.dashboard.reauthentication.flow import require_reauthentication
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.dashboard.runs.forms import ReasonForm
from locks.dashboard.runs.queries import RunsFilters, StoreFilters, store
from locks.events.history.export import TooManyExports
from locks.models import EventKind, RunActor
from locks.runs import lifecycle, queries
from locks.runs.export import export_response
from locks.services import clock
from locks.services.audit import record

ROWS = 100
STATES = {"": "All", "unfinished": "Unfinished", "active": "Active", "draining": "Draining", "finished": "Finished"}


@require_safe
@space_required
def runs(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    filters = RunsFilters.of(request.GET)
    context = {
        "filters": filters,
        "runs": queries.runs(space=space_context.space, state=filters.state, limit=ROWS),
        "max_rows": ROWS,
        "states": STATES,
        "now": clock.now(),
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "runs/list.html", context)
    return page(request, space_context, "runs/page.html", context, active_page="runs")


@require_safe
@space_required
def run(request: HttpRequest, space_context: SpaceContext, run_id: UUID) -> HttpResponse:
    row = _find(space_context, run_id)
    filters = StoreFilters.of(request.GET)
    nodes = queries.layers(run_id)
    chosen = filters.node(nodes)
    context = {
        "run": row,
        "now": clock.now(),
        "filters": filters,
        "nodes": nodes,
        "leases": queries.leases(run_id),
        "waiters": queries.waiters(run_id),
        "chosen": chosen,
        "store": store(chosen.layer.pk, filters, shows_peer=_shows_peer(space_context)) if chosen else None,
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "runs/run_detail.html", context)
    return page(request, space_context, "runs/run.html", context, active_page="runs")


@require_POST
@space_required
def export(request: HttpRequest, space_context: SpaceContext, run_id: UUID) -> HttpResponseBase:
    """A POST, since it is recorded: no link or prefetch must trigger it. It has all values, so it takes an operator."""
    space_context.require_operator()
    row = _find(space_context, run_id)
    try:
        response = export_response(run_id, team_id=space_context.team.pk, actor=("user", current_user(request).pk))
    except TooManyExports as refused:
        return refused_export(request, refused, back_url=space_context.url("run", run_id=run_id))
    record(
        EventKind.RUN_EXPORTED,
        actor=actor(request),
        space=space_context.space,
        token=lifecycle.lead_token(run_id),
        detail={"run": row.name, "run_id": str(run_id)},
    )
    return response


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
def drain(request: HttpRequest, space_context: SpaceContext, run_id: UUID) -> HttpResponse:
    space_context.require_operator()
    row = _find(space_context, run_id)
    back = _back(space_context, run_id)
    if row.finished_at is not None:
        return refusal(request, space_context, f"{row.name} has finished.", title="Nothing was drained", **back)
    if request.method != "POST":
        return dialog(request, space_context, "runs/drain.html", {"run": row}, title=f"Drain {row.name}", **back)
    try:
        lifecycle.drain(actor=actor(request), run_id=run_id, space=space_context.space)
    except lifecycle.RunFinished:
        return refusal(request, space_context, f"{row.name} has finished.", title="Nothing was drained", **back)
    messages.success(request, f"{row.name} is draining: it grants no new leases.")
    return redirect(back["back_url"])


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
def finish(request: HttpRequest, space_context: SpaceContext, run_id: UUID) -> HttpResponse:
    space_context.require_operator()
    row = _find(space_context, run_id)
    back = _back(space_context, run_id)
    if row.finished_at is not None:
        text = f"{row.name} has finished: {row.finish_reason}."
        return refusal(request, space_context, text, title="Nothing was finished", **back)
    if response := require_reauthentication(request, space_context):
        return response
    form = ReasonForm(request.POST or None)
    if not form.is_valid():
        return dialog(
            request, space_context, "runs/finish.html", {"form": form, "run": row},
            title=f"Finish {row.name}", status=form_status(form), **back,
        )  # fmt: skip
    reason = form.cleaned_data["reason"]
    lifecycle.finish(actor=actor(request), run_id=run_id, space=space_context.space, reason=reason)
    messages.success(request, f"{row.name} finished: its tokens are revoked and its leases are free.")
    return redirect(back["back_url"])


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
def end_actor(request: HttpRequest, space_context: SpaceContext, run_id: UUID, actor_name: str) -> HttpResponse:
    space_context.require_operator()
    row = _find(space_context, run_id)
    back = _back(space_context, run_id)
    target = RunActor.objects.filter(run=run_id, name=actor_name, ended_at=None).first()
    if target is None:
        if not RunActor.objects.filter(run=run_id, name=actor_name).exists():
            raise Http404
        return refusal(request, space_context, f"{actor_name} has left the run.", title="Nothing was ended", **back)
    if response := require_reauthentication(request, space_context):
        return response
    form = ReasonForm(request.POST or None)
    if not form.is_valid():
        return dialog(
            request, space_context, "runs/end_actor.html", {"form": form, "run": row, "actor_name": actor_name},
            title=f"End {actor_name}", status=form_status(form), **back,
        )  # fmt: skip
    try:
        lifecycle.end_actor(actor=actor(request), run_actor=target, reason=form.cleaned_data["reason"])
    except lifecycle.ActorNotFound:
        return refusal(request, space_context, f"{actor_name} has left the run.", title="Nothing was ended", **back)
    messages.success(request, f"{actor_name} ended: its token is revoked and its leases are free.")
    return redirect(back["back_url"])


def _find(space_context: SpaceContext, run_id: UUID) -> queries.RunRow:
    row = queries.find_run(space=space_context.space, run_id=run_id)
    if row is None:
        raise Http404
    return row


def _back(space_context: SpaceContext, run_id: UUID) -> dict[str, Any]:
    return {"back_url": space_context.url("run", run_id=run_id), "active_page": "runs"}


def _shows_peer(space_context: SpaceContext) -> bool:
    return space_context.may_force or space_context.space.viewers_see_peer_values
