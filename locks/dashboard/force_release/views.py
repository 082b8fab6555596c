"""Force-release: take a lock from its holder, with a reason, guarded by the fencing token that was shown.

A page of its own that also fits into a dialog: there, answers are 200 whatever became of it, since htmx and the browser
would treat anything else as a failed request.
"""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from locks.dashboard.access import SpaceContext, current_user, request_id, space_required
from locks.dashboard.forms import ForceReleaseForm
from locks.dashboard.lock.queries import find_lock
from locks.dashboard.reauthentication.flow import require_reauthentication
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.engine import requests, results
from locks.engine.execution import run
from locks.engine.operations import force_release as force_release_locks
from locks.engine.verdicts import Verdict
from locks.models import Channel


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
def force_release(request: HttpRequest, place: SpaceContext, name: str) -> HttpResponse:
    if not place.may_force:
        raise PermissionDenied
    lock = find_lock(space=place.space, name=name)
    if lock is None:
        raise Http404
    if lock.is_live and (asked := require_reauthentication(request, place)):
        return asked
    context: dict[str, Any] = {"name": name, "lock": lock}
    if request.method != "POST":
        form = ForceReleaseForm(
            initial={"fencing_token": lock.fencing_token}, name=name, must_type_name=lock.is_heartbeating
        )
        return _answer(request, place, {**context, "form": form})
    form = ForceReleaseForm(request.POST, name=name, must_type_name=lock.is_heartbeating)
    if not form.is_valid():
        return _answer(request, place, {**context, "form": form}, status=422)
    outcome = _release(request, place, name, form.cleaned_data)
    match outcome.verdict:
        case Verdict.RELEASED:
            response = _answer(request, place, {**context, "released": outcome})
            response["HX-Trigger"] = "octo:changed"
            return response
        case Verdict.FENCING_MISMATCH | Verdict.NOT_HELD:
            now = find_lock(space=place.space, name=name)
            return _answer(request, place, {**context, "lock": now, "refused": outcome.verdict}, status=409)
    raise AssertionError(outcome.verdict)


def _release(request: HttpRequest, place: SpaceContext, name: str, wanted: dict[str, Any]) -> results.ForceReleased:
    user = current_user(request)
    asked = requests.ForceRelease(
        digest=None,
        space_id=place.space.pk,
        actor_id=user.pk,
        actor_name=user.get_username(),
        channel=Channel.WEB.value,
        address=request.META.get("REMOTE_ADDR"),
        request_id=request_id(request),
        name=name,
        reason=wanted["reason"],
        expected_fencing_token=wanted["fencing_token"],
        lock_delay_seconds=wanted["lock_delay_seconds"],
    )
    (outcome,) = run(force_release_locks([asked]))
    return outcome


def _answer(request: HttpRequest, place: SpaceContext, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    if is_htmx_target(request, "dialog"):
        return partial(request, place, "force_release/dialog.html", context)
    return page(request, place, "force_release/page.html", context, active_page="lock", status=status)
