"""Stuck: the locks that need attention, and snoozing them."""

from dataclasses import replace
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from locks.dashboard.access import SpaceContext, actor, space_required
from locks.dashboard.dialogs import dialog, refusal
from locks.dashboard.form_rendering import form_status
from locks.dashboard.lock.queries import find_lock
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.dashboard.stuck.forms import SnoozeForm
from locks.dashboard.stuck.queries import ROWS, StuckFilters, describe_reasons
from locks.services import snooze as snoozing
from locks.services.stuck import Reason, inbox, store_count


@require_safe
@space_required
def stuck(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    filters = StuckFilters.of(request.GET)
    results = inbox(
        space=space_context.space, reason=filters.reason, snoozed=filters.snoozed, page=filters.page, limit=ROWS
    )
    if results.total != space_context.stuck:
        # The number in the navigation of every page.
        store_count(space=space_context.space, stuck=results.total)
        space_context = replace(space_context, stuck=results.total)
    context = {
        "filters": filters,
        "inbox": results,
        "items": [(stuck, describe_reasons(stuck)) for stuck in results.locks],
        "reasons": list(results.by_reason.items()),
        "has_next": results.has_more,
        # For the button that releases all locks of the filter rather than the selected ones.
        "filter_fields": [("reason", filters.reason)],
        "total": results.by_reason[Reason(filters.reason)] if filters.reason else results.total,
        "total_label": "listed here",
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "stuck/inbox.html", context)
    return page(request, space_context, "stuck/page.html", context, active_page="stuck")


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
def snooze(request: HttpRequest, space_context: SpaceContext, name: str) -> HttpResponse:
    space_context.require_operator()
    lock = find_lock(space=space_context.space, name=name)
    if lock is None:
        raise Http404
    back: dict[str, Any] = {"back_url": space_context.url("stuck"), "active_page": "stuck"}
    form = SnoozeForm(request.POST or None, initial={"fencing_token": lock.fencing_token})
    if lock.owner is None:
        return refusal(request, space_context, f"{name} is not held any more.", title="Nothing was snoozed", **back)
    if not form.is_valid():
        context = {"form": form, "lock": lock, "now": lock.now}
        return dialog(
            request, space_context, "stuck/snooze.html", context,
            title=f"Snooze {name}", stays_open=True, status=form_status(form), **back,
        )  # fmt: skip
    fencing_token, hours = form.cleaned_data["fencing_token"], form.cleaned_data["hours"]
    if lock.fencing_token != fencing_token:
        text = f"{name} has a new holder: {lock.owner} holds it now."
        return refusal(request, space_context, text, title="Nothing was snoozed", **back)
    snoozing.snooze(
        space=space_context.space, lock_name=name, fencing_token=fencing_token, owner=lock.owner,
        hours=hours, note=form.cleaned_data["note"], actor=actor(request),
    )  # fmt: skip
    if not is_htmx_target(request, "dialog"):
        return redirect(back["back_url"])
    text = f"{name} is out of the inbox for {hours} hour{'s' * (hours > 1)}, or until it has another holder."
    return dialog(request, space_context, "layouts/dialog_result.html", {"text": text}, title="Snoozed", **back)


@require_POST
@space_required
def end_snooze(request: HttpRequest, space_context: SpaceContext, name: str) -> HttpResponse:
    space_context.require_operator()
    token = request.POST.get("fencing_token", "")
    if not (token.isascii() and token.isdigit() and len(token) < 19):
        raise Http404
    if not snoozing.end_snooze(
        space=space_context.space, lock_name=name, fencing_token=int(token), actor=actor(request)
    ):
        raise Http404
    return redirect(space_context.url("stuck"))
