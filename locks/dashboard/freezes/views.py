"""Freeze: an operator closes a prefix, or the whole space, to new claims; and lifts that again. In a dialog, or without
JavaScript on a page of its own."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect

from locks.dashboard.access import SpaceContext, actor, space_required
from locks.dashboard.dialogs import dialog, refusal
from locks.dashboard.form_rendering import form_status
from locks.dashboard.freezes.forms import FreezeForm
from locks.dashboard.reauthentication.flow import require_reauthentication
from locks.dashboard.rendering import is_htmx_target, partial
from locks.models import Freeze
from locks.services import freezes


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
def freeze(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    space_context.require_operator()
    if response := require_reauthentication(request, space_context):
        return response
    space = space_context.space
    form = FreezeForm(
        request.POST or None, space=space, initial={"prefix": request.GET.get("prefix", "").replace("\0", "")}
    )
    if not form.is_valid():
        return _form(request, space_context, form, status=form_status(form))
    try:
        freezes.freeze(
            actor=actor(request), space=space, prefix=form.cleaned_data["prefix"], reason=form.cleaned_data["reason"],
            duration=form.duration,
        )  # fmt: skip
    except freezes.TooManyFreezes:
        text = f"{space.name} has {freezes.MAX_FREEZES_PER_SPACE} freezes. Lift one first."
        return refusal(request, space_context, text, title="Nothing was frozen", **_back(space_context))
    if is_htmx_target(request, "dialog"):
        return HttpResponseClientRedirect(space_context.url("now"))
    return redirect(space_context.url("now"))


@require_POST
@space_required
def preview(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    """What the freeze would touch, from a form that may be incomplete."""
    space_context.require_operator()
    form = FreezeForm(request.POST, space=space_context.space)
    form.is_valid()
    if is_htmx_target(request, "preview"):
        return partial(request, space_context, "freezes/preview.html", _preview(space_context, form))
    # Without JavaScript: the form again, with nothing missing yet.
    initial = {name: str(text).replace("\0", "") for name, text in request.POST.items()}
    return _form(request, space_context, FreezeForm(space=space_context.space, initial=initial))


@require_POST
@space_required
def lift(request: HttpRequest, space_context: SpaceContext, freeze_id: int) -> HttpResponse:
    space_context.require_operator()
    if not Freeze.objects.filter(pk=freeze_id, space=space_context.space).exists():
        raise Http404
    try:
        freezes.lift(actor=actor(request), space=space_context.space, freeze_id=freeze_id)
    except freezes.NotFrozen:
        text = "The freeze is over: its time has passed, or it was lifted."
        return refusal(request, space_context, text, title="Nothing was lifted", **_back(space_context))
    return redirect(space_context.url("now"))


def _form(request: HttpRequest, space_context: SpaceContext, form: FreezeForm, *, status: int = 200) -> HttpResponse:
    return dialog(
        request, space_context, "freezes/form.html", {"form": form, **_preview(space_context, form)},
        title="Freeze", stays_open=True, status=status, **_back(space_context),
    )  # fmt: skip


def _preview(space_context: SpaceContext, form: FreezeForm) -> dict[str, Any]:
    prefix = form.cleaned_data.get("prefix") if form.is_bound else form.initial.get("prefix", "")
    touched = None if prefix is None else freezes.preview(space=space_context.space, prefix=prefix)
    return {"prefix": prefix, "touched": touched, "max_count": freezes.MAX_COUNT}


def _back(space_context: SpaceContext) -> dict[str, Any]:
    return {"back_url": space_context.url("now"), "active_page": "now"}
