"""The namespaces and the lock policy of a space, with a preview of what they would block."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from locks.dashboard.access import SpaceContext, actor, admin_required, current_user, space_required
from locks.dashboard.form_rendering import form_status
from locks.dashboard.namespaces.forms import NamespacesForm
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.models import Space
from locks.services import namespaces as service

MAX_SHOWN = 10


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
def namespaces(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    space = space_context.space
    form = NamespacesForm(request.POST or None, space=space)
    if not form.is_valid():
        return _page(request, space_context, form, status=form_status(form))
    changed = service.change(
        actor=actor(request), by=current_user(request), space=space,
        namespaces=form.namespaces, lock_policy=form.cleaned_data["lock_policy"],
    )  # fmt: skip
    if changed:
        overlapping = service.overlapping_leases(space=space, namespaces=form.namespaces)
        messages.success(request, f"Namespaces of {space.name} saved. They apply from the next request.")
        if overlapping:
            pairs = "; ".join(f"{name} and {other}" for name, other in overlapping[:MAX_SHOWN])
            more = f"; and {len(overlapping) - MAX_SHOWN} more pairs" if len(overlapping) > MAX_SHOWN else ""
            messages.warning(request, f"These leases overlap and stay held until they end: {pairs}{more}.")
    return redirect(space_context.url("namespaces"))


@require_POST
@space_required
@admin_required
def preview(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    """What the table in the form would mean for the locks held now. Saves nothing."""
    form = NamespacesForm(request.POST, space=space_context.space)
    form.is_valid()
    if is_htmx_target(request, "preview"):
        return partial(request, space_context, "namespaces/preview.html", _preview(space_context.space, form))
    return _page(request, space_context, form)


def _page(
    request: HttpRequest, space_context: SpaceContext, form: NamespacesForm, *, status: int = 200
) -> HttpResponse:
    context = {"form": form, **_preview(space_context.space, form)}
    return page(request, space_context, "namespaces/page.html", context, active_page="team", status=status)


def _preview(space: Space, form: NamespacesForm) -> dict[str, Any]:
    table = form.namespaces if form.is_bound else space.namespaces
    context: dict[str, Any] = {"overlapping": service.overlapping_leases(space=space, namespaces=table)[:MAX_SHOWN]}
    name = form.cleaned_data.get("name", "").strip() if form.is_bound else ""
    if name:
        try:
            canonical, blocked = service.leases_overlapping(space=space, namespaces=table, name=name)
            context |= {"tried": canonical, "blocked": blocked[:MAX_SHOWN], "blocked_count": len(blocked)}
        except service.InvalidNamespace as error:
            context["problem"] = str(error)
    return context
