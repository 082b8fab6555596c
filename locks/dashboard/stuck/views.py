"""Stuck: what needs somebody, and putting it off."""

from dataclasses import replace
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from locks.dashboard.access import SpaceContext, actor, space_required
from locks.dashboard.forms import SnoozeForm
from locks.dashboard.lock.queries import find_lock
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.dashboard.stuck.queries import StuckFilter, inbox
from locks.services import snooze as snoozing


@require_safe
@space_required
def stuck(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    wanted = StuckFilter.of(request.GET)
    found = inbox(space=place.space, wanted=wanted)
    # Counted this moment, so the number in the navigation is right at least here.
    place = replace(place, stuck=found.stuck)
    context = {
        "wanted": wanted,
        "inbox": found,
        "filter_fields": [("reason", wanted.reason)],
        "all_number": found.number_of(wanted.reason),
        "all_words": "listed here",
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, place, "stuck/board.html", context)
    return page(request, place, "stuck/page.html", context, active_page="stuck")


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
def snooze(request: HttpRequest, place: SpaceContext, name: str) -> HttpResponse:
    """A page of its own that also fits into a dialog, as force-release."""
    if not place.may_force:
        raise PermissionDenied
    lock = find_lock(space=place.space, name=name)
    if lock is None:
        raise Http404
    context: dict[str, Any] = {"name": name, "lock": lock}
    if request.method != "POST":
        form = SnoozeForm(initial={"fencing_token": lock.fencing_token})
        return _answer(request, place, {**context, "form": form})
    form = SnoozeForm(request.POST)
    if not form.is_valid():
        return _answer(request, place, {**context, "form": form}, status=422)
    wanted = form.cleaned_data
    if lock.owner is None or lock.fencing_token != wanted["fencing_token"]:
        return _answer(request, place, {**context, "refused": True}, status=409)
    snoozing.snooze(
        space=place.space, lock_name=name, fencing_token=wanted["fencing_token"], owner=lock.owner,
        hours=wanted["hours"], note=wanted["note"], actor=actor(request),
    )  # fmt: skip
    if is_htmx_target(request, "dialog"):
        response = partial(request, place, "stuck/snooze_dialog.html", {**context, "snoozed": wanted})
        response["HX-Trigger"] = "octo:changed"
        return response
    return redirect(place.url("stuck"))


@require_POST
@space_required
def end_snooze(request: HttpRequest, place: SpaceContext, name: str) -> HttpResponse:
    if not place.may_force:
        raise PermissionDenied
    token = request.POST.get("fencing_token", "")
    if not (token.isascii() and token.isdigit() and len(token) < 19):
        raise Http404
    if not snoozing.end_snooze(space=place.space, lock_name=name, fencing_token=int(token), actor=actor(request)):
        raise Http404
    return redirect(place.url("stuck"))


def _answer(request: HttpRequest, place: SpaceContext, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    if is_htmx_target(request, "dialog"):
        return partial(request, place, "stuck/snooze_dialog.html", context)
    return page(request, place, "stuck/snooze_page.html", context, active_page="stuck", status=status)
