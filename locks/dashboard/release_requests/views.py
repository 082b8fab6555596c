"""Asking for the release of a held lock: for viewers too. Operators see the request on Stuck and Now."""

from typing import Any, assert_never

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from locks.dashboard.access import SpaceContext, actor, space_required
from locks.dashboard.dialogs import dialog, refusal
from locks.dashboard.form_rendering import form_status
from locks.dashboard.lock.queries import find_lock
from locks.dashboard.release_requests.forms import ReleaseRequestForm
from locks.dashboard.rendering import is_htmx_target
from locks.services.lock_row import LockRow
from locks.services.release_requests import MAX_OPEN, MINUTES, Outcome, request_release


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
def ask(request: HttpRequest, space_context: SpaceContext, name: str) -> HttpResponse:
    lock = find_lock(space=space_context.space, name=name)
    if lock is None:
        raise Http404
    back: dict[str, Any] = {"back_url": space_context.url("lock", name=name), "active_page": "lock"}
    form = ReleaseRequestForm(request.POST or None, initial={"fencing_token": lock.fencing_token})
    if not lock.is_live:
        status = 409 if form.is_bound else 200
        text = f"{name} is not held any more."
        return refusal(request, space_context, text, title="Nothing was requested", status=status, **back)
    if not form.is_valid():
        return dialog(
            request, space_context, "release_requests/form.html", {"form": form, "lock": lock, "now": lock.now},
            title=f"Ask for the release of {name}", stays_open=True, status=form_status(form), **back,
        )  # fmt: skip
    if lock.fencing_token != form.cleaned_data["fencing_token"]:
        text = f"{name} has a new holder: {lock.owner} holds it now."
        return refusal(request, space_context, text, title="Nothing was requested", **back)
    outcome = request_release(
        actor=actor(request), space=space_context.space, lock_name=name, fencing_token=lock.fencing_token,
        owner=lock.owner, reason=form.cleaned_data["reason"],
    )  # fmt: skip
    match outcome:
        case Outcome.RECORDED:
            return _requested(request, space_context, lock, back)
        case Outcome.TOO_SOON:
            text = f"You asked for this lock less than {MINUTES} minutes ago. The operators can see it."
        case Outcome.TOO_MANY:
            text = f"You have {MAX_OPEN} open requests in {space_context.space.name}. Wait until one is granted."
        case _:
            assert_never(outcome)
    return refusal(request, space_context, text, title="Nothing was requested", status=429, **back)


def _requested(request: HttpRequest, space_context: SpaceContext, lock: LockRow, back: dict[str, Any]) -> HttpResponse:
    if not is_htmx_target(request, "dialog"):
        return redirect(back["back_url"])
    context = {"lock": lock}
    return dialog(request, space_context, "release_requests/requested.html", context, title="Requested", **back)
