"""Bulk force-release: selection, preview, confirmation, progress and results."""

from typing import Any

import structlog
from celery import current_app
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe
from kombu.exceptions import OperationalError

from locks.dashboard.access import SpaceContext, actor, current_user, space_required
from locks.dashboard.bulk_release.forms import BulkReleaseForm
from locks.dashboard.bulk_release.queries import (
    OUTCOME_FILTERS,
    Preview,
    find_batch,
    parse_int,
    preview,
    progress,
    recent_batches,
    results,
    worker_is_alive,
)
from locks.dashboard.bulk_release.selection import selection
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.models import BulkRelease, BulkReleaseState
from locks.services import bulk_release

_log = structlog.stdlib.get_logger(__name__)


@require_safe
@space_required
def releases(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    return page(
        request,
        space_context,
        "bulk_release/list.html",
        {"batches": recent_batches(space=space_context.space)},
        active_page="stuck",
    )


@require_POST
@space_required
def prepare(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    space_context.require_operator()
    selected = selection(space=space_context.space, form=request.POST)
    if not selected.locks:
        return page(request, space_context, "bulk_release/empty.html", {}, active_page="release", status=422)
    batch = bulk_release.prepare(
        space=space_context.space, user=current_user(request), selection_label=selected.label, locks=selected.locks
    )
    return redirect(space_context.url("release", number=batch.pk))


@require_safe
@space_required
def release(request: HttpRequest, space_context: SpaceContext, number: int) -> HttpResponse:
    batch = _find(request, space_context, number)
    if batch.state == BulkReleaseState.PREPARED:
        return _preview(request, space_context, batch)
    context = {
        "batch": batch,
        "progress": progress(batch=batch),
        "results": results(batch=batch, query=request.GET),
        "outcome_filters": {name: label for name, (label, _outcomes) in OUTCOME_FILTERS.items()},
        "is_running": batch.state == BulkReleaseState.CONFIRMED,
        "worker_is_alive": batch.state != BulkReleaseState.CONFIRMED or worker_is_alive(),
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "bulk_release/progress.html", context)
    return page(request, space_context, "bulk_release/page.html", context, active_page="release")


@require_POST
@space_required
@recently_confirmed
def confirm(request: HttpRequest, space_context: SpaceContext, number: int) -> HttpResponse:
    space_context.require_operator()
    batch = _find(request, space_context, number)
    if batch.state != BulkReleaseState.PREPARED:
        # A double click: the first request counts.
        return redirect(space_context.url("release", number=batch.pk))
    shown = preview(batch=batch, after=0)
    form = _form(batch, shown, request.POST)
    if not form.is_valid():
        return _preview(request, space_context, batch, form=form, shown=shown, status=422)
    with transaction.atomic():
        if bulk_release.confirm(
            batch=batch, actor=actor(request), reason=form.cleaned_data["reason"],
            lock_delay_seconds=form.cleaned_data["lock_delay_seconds"],
        ):  # fmt: skip
            transaction.on_commit(lambda: _start(batch.pk))
    return redirect(space_context.url("release", number=batch.pk))


@require_POST
@space_required
def stop(request: HttpRequest, space_context: SpaceContext, number: int) -> HttpResponse:
    space_context.require_operator()
    batch = _find(request, space_context, number)
    bulk_release.stop(batch=batch, actor=actor(request))
    return redirect(space_context.url("release", number=batch.pk))


def _start(batch_id: int) -> None:
    try:
        current_app.send_task("locks.tasks.run_bulk_release", [batch_id])
    except (OperationalError, OSError) as error:
        # The scheduler queues it again.
        _log.warning("bulk release could not be queued", batch=batch_id, error=str(error))


def _find(request: HttpRequest, space_context: SpaceContext, number: int) -> BulkRelease:
    """A prepared release is visible only to the user who prepared it."""
    batch = find_batch(space=space_context.space, number=number)
    if batch is None or (
        batch.state == BulkReleaseState.PREPARED and batch.requested_by_id != current_user(request).pk
    ):
        raise Http404
    return batch


def _preview(
    request: HttpRequest, space_context: SpaceContext, batch: BulkRelease, *, form: BulkReleaseForm | None = None,
    shown: Preview | None = None, status: int = 200,
) -> HttpResponse:  # fmt: skip
    space_context.require_operator()
    shown = shown or preview(batch=batch, after=parse_int(request.GET, "after"))
    context: dict[str, Any] = {
        "batch": batch, "preview": shown, "form": form or _form(batch, shown), "phrase": _phrase(batch)
    }  # fmt: skip
    return page(request, space_context, "bulk_release/preview.html", context, active_page="release", status=status)


def _form(batch: BulkRelease, shown: Preview, *data: Any) -> BulkReleaseForm:
    return BulkReleaseForm(
        *data, phrase=_phrase(batch), must_type=bool(shown.total.heartbeating or shown.total.reserved)
    )


def _phrase(batch: BulkRelease) -> str:
    return f"release {batch.total}"
