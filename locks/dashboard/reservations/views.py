"""Reserve: a person holds a lock, extends that, hands it over to a colleague and releases it. In dialogs, or without
JavaScript on pages of their own."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect

from locks.dashboard.access import SpaceContext, actor, current_user, space_required
from locks.dashboard.dialogs import dialog, refusal
from locks.dashboard.form_rendering import form_status
from locks.dashboard.lock.queries import find_lock, is_known
from locks.dashboard.rendering import is_htmx_target
from locks.dashboard.reservations.forms import ExtendForm, HandOverForm, ReserveForm
from locks.dashboard.template_tags import utc_time
from locks.engine import results
from locks.engine.verdicts import Verdict
from locks.runs.names import is_run_name
from locks.services import reservations
from locks.services.lock_row import LockRow

NOT_YOURS = "You do not hold it any more: it has expired, was force-released, or was handed over. Nothing was changed."


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
def reserve(request: HttpRequest, space_context: SpaceContext, name: str | None = None) -> HttpResponse:
    """Of a lock that has a page, or of a name that the form asks for."""
    space_context.require_operator()
    if name is not None and (is_run_name(name) or not is_known(space=space_context.space, name=name)):
        raise Http404
    back = _back(space_context, name)
    form = ReserveForm(request.POST or None, space=space_context.space, name=name)
    status = form_status(form)
    if form.is_valid():
        chosen = name or form.cleaned_data["name"]
        result = reservations.reserve(
            actor=actor(request), space=space_context.space, name=chosen, reason=form.cleaned_data["reason"],
            seconds=form.cleaned_data["seconds"],
        )  # fmt: skip
        if result.verdict == Verdict.ACQUIRED:
            return _to_lock(request, space_context, chosen)
        form.add_error(None, _why_not(result))
        status = 409
    return dialog(
        request, space_context, "reservations/reserve.html", {"form": form},
        title=f"Reserve {name}" if name else "Reserve a name", stays_open=True, status=status, **back,
    )  # fmt: skip


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
def extend(request: HttpRequest, space_context: SpaceContext, name: str) -> HttpResponse:
    space_context.require_operator()
    lock = _find(request, space_context, name)
    back = _back(space_context, name)
    if lock is None:
        return refusal(request, space_context, NOT_YOURS, title="Nothing was extended", **back)
    form = ExtendForm(request.POST or None, space=space_context.space, initial={"fencing_token": lock.fencing_token})
    if not form.is_valid():
        return dialog(
            request, space_context, "reservations/extend.html", {"form": form, "lock": lock, "now": lock.now},
            title=f"Extend {name}", stays_open=True, status=form_status(form), **back,
        )  # fmt: skip
    seconds = form.cleaned_data["seconds"]
    result = reservations.extend(
        actor=actor(request), space=space_context.space, name=name, seconds=seconds,
        fencing_token=form.cleaned_data["fencing_token"],
    )  # fmt: skip
    match result.verdict:
        case Verdict.RENEWED:
            until = f"{name} is reserved until {utc_time(result.expires_at)}."
            assert lock.effective_expires_at is not None
            if (result.expires_at - lock.effective_expires_at).total_seconds() < seconds - 1:
                until += " The limits of the space allow no more."
            return dialog(
                request, space_context, "layouts/dialog_result.html", {"text": until}, title="Extended", **back
            )
        case Verdict.MAX_HOLD_REACHED:
            text = "It lasts as long as the limits of the space allow: the maximum TTL and the maximum hold."
            return refusal(request, space_context, text, title="Nothing was extended", **back)
    return refusal(request, space_context, NOT_YOURS, title="Nothing was extended", **back)


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
def hand_over(request: HttpRequest, space_context: SpaceContext, name: str) -> HttpResponse:
    space_context.require_operator()
    lock = _find(request, space_context, name)
    back = _back(space_context, name)
    colleagues = reservations.colleagues(space=space_context.space, user=current_user(request))
    if lock is None:
        return refusal(request, space_context, NOT_YOURS, title="Nothing was handed over", **back)
    form = HandOverForm(request.POST or None, colleagues=colleagues, initial={"fencing_token": lock.fencing_token})
    if not form.is_valid():
        context = {"form": form, "lock": lock, "now": lock.now, "is_alone": not colleagues.exists()}
        return dialog(
            request, space_context, "reservations/hand_over.html", context,
            title=f"Hand over {name}", stays_open=True, status=form_status(form), **back,
        )  # fmt: skip
    result = reservations.hand_over(
        actor=actor(request), space=space_context.space, name=name, to=form.cleaned_data["to"],
        fencing_token=form.cleaned_data["fencing_token"],
    )  # fmt: skip
    if result.verdict != Verdict.ACQUIRED:
        return refusal(request, space_context, NOT_YOURS, title="Nothing was handed over", **back)
    return _to_lock(request, space_context, name)


@require_POST
@space_required
def release(request: HttpRequest, space_context: SpaceContext, name: str) -> HttpResponse:
    """Of an own reservation, also after the role that it took was lost."""
    lock = _find(request, space_context, name)
    token = request.POST.get("fencing_token", "")
    if lock is None or token != str(lock.fencing_token):
        return refusal(request, space_context, NOT_YOURS, title="Nothing was released", **_back(space_context, name))
    verdict = reservations.release(
        actor=actor(request), space=space_context.space, name=name, fencing_token=lock.fencing_token,
        user=current_user(request),
    )  # fmt: skip
    if verdict != Verdict.RELEASED:
        return refusal(request, space_context, NOT_YOURS, title="Nothing was released", **_back(space_context, name))
    return redirect(space_context.url("lock", name=name))


def _find(request: HttpRequest, space_context: SpaceContext, name: str) -> LockRow | None:
    """The lock if the user has reserved it. Raises 404 for a name that is not known."""
    lock = find_lock(space=space_context.space, name=name)
    if lock is None:
        raise Http404
    is_own = reservations.is_reserved_by(current_user(request), space=space_context.space, name=name)
    return lock if lock.is_live and is_own else None


def _to_lock(request: HttpRequest, space_context: SpaceContext, name: str) -> HttpResponse:
    url = space_context.url("lock", name=name)
    return HttpResponseClientRedirect(url) if is_htmx_target(request, "dialog") else redirect(url)


def _why_not(result: results.Acquired) -> str:
    match result.verdict:
        case Verdict.HELD if result.owner is None:
            return "A lock whose name overlaps is held. See the names that overlap on the page of the lock."
        case Verdict.HELD:
            return f"{result.owner} holds it. Wait for its end, or force-release it first."
        case Verdict.DELAYED if result.freeze is not None:
            return f"It is frozen: {result.freeze['reason']}. Lift the freeze, or wait for its end."
        case Verdict.DELAYED:
            return "It is in the cooldown after its last holder. Try again in a minute."
        case Verdict.SPACE_FULL | Verdict.HISTORY_FULL:
            return "The space is at its limit of live locks, names or events. Ask an admin for more."
        case Verdict.TTL_TOO_LONG | Verdict.METADATA_TOO_LONG:
            return "The limits of the space have changed meanwhile. Choose again."
    return f"It could not be reserved ({result.verdict}). Try again."


def _back(space_context: SpaceContext, name: str | None) -> dict[str, Any]:
    url = space_context.url("lock", name=name) if name else space_context.url("now")
    return {"back_url": url, "active_page": "lock" if name else "now"}
