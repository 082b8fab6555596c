"""Force-release of one lock, with a reason and guarded by the fencing token that was shown. In a dialog, or without
JavaScript on a page of its own."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from locks.dashboard.access import SpaceContext, actor, space_required
from locks.dashboard.dialogs import dialog
from locks.dashboard.force_release.forms import ForceReleaseForm
from locks.dashboard.force_release.queries import end_of_hold
from locks.dashboard.form_rendering import form_status
from locks.dashboard.lock.queries import find_lock
from locks.dashboard.reauthentication.flow import require_reauthentication
from locks.engine import results
from locks.engine.execution import run
from locks.engine.operations import force_release as force_release_locks
from locks.engine.verdicts import Verdict
from locks.models.lock import MAX_FENCING_TOKEN
from locks.services.force_release import authorized_by, force_release_request
from locks.services.lock_row import LockRow
from locks.services.notes import find_notes


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
def force_release(request: HttpRequest, space_context: SpaceContext, name: str) -> HttpResponse:
    space_context.require_operator()
    lock = find_lock(space=space_context.space, name=name)
    if lock is None:
        raise Http404
    if lock.is_live and (response := require_reauthentication(request, space_context)):
        return response
    form = ForceReleaseForm(
        request.POST or None, initial={"fencing_token": lock.fencing_token},
        name=name, must_type_name=bool(lock.is_heartbeating), is_reserved=lock.is_reserved,
    )  # fmt: skip
    if not lock.is_live:
        shown_token = form.data.get("fencing_token") if form.is_bound else None
        return _refuse(request, space_context, lock, shown_token, status=409 if form.is_bound else 200)
    if not form.is_valid():
        note = find_notes(space=space_context.space, names=[name]).get(name)
        context = {"form": form, "lock": lock, "now": lock.now, "note": note}
        return dialog(
            request, space_context, "force_release/form.html", context,
            title=f"Force-release {name}", stays_open=True, status=form_status(form), **_back(space_context, name),
        )  # fmt: skip
    result = _release(request, space_context, name, form.cleaned_data)
    match result.verdict:
        case Verdict.RELEASED:
            context = {"name": name, "released": result}
            return dialog(
                request, space_context, "force_release/released.html", context,
                title="Released", **_back(space_context, name),
            )  # fmt: skip
        case Verdict.FENCING_MISMATCH | Verdict.NOT_HELD:
            current = find_lock(space=space_context.space, name=name)
            assert current is not None, "the row of a lock is purged long after its last use"
            return _refuse(request, space_context, current, form.cleaned_data["fencing_token"])
    raise AssertionError(result.verdict)


def _refuse(
    request: HttpRequest, space_context: SpaceContext, lock: LockRow, shown_token: Any, *, status: int = 409
) -> HttpResponse:
    """Nothing was released: the hold under the fencing token that was shown has ended. Says how, and what is now."""
    text = str(shown_token or "")
    token = int(text) if text.isdecimal() and len(text) < 19 else lock.fencing_token
    end = end_of_hold(space=space_context.space, name=lock.name, fencing_token=min(token, MAX_FENCING_TOKEN))
    return dialog(
        request, space_context, "force_release/refused.html", {"lock": lock, "end": end, "refused": True},
        title="Nothing was released", status=status, **_back(space_context, lock.name),
    )  # fmt: skip


def _back(space_context: SpaceContext, name: str) -> dict[str, Any]:
    return {"back_url": space_context.url("lock", name=name), "active_page": "lock"}


def _release(
    request: HttpRequest, space_context: SpaceContext, name: str, cleaned: dict[str, Any]
) -> results.ForceReleased:
    force_request = force_release_request(
        authorized_by(actor(request), space_id=space_context.space.pk),
        name=name,
        reason=cleaned["reason"],
        fencing_token=cleaned["fencing_token"],
        lock_delay_seconds=cleaned["lock_delay_seconds"],
    )
    (result,) = run(force_release_locks([force_request]))
    return result
