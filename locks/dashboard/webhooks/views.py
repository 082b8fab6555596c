"""Webhooks: the list, a page for each, creating one and changing it.

As with tokens, the answer to the POST that makes a secret is the one page that shows it.
"""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe

from locks.dashboard.access import SpaceContext, actor, admin_required, space_required
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.dashboard.webhooks.forms import KINDS, WebhookForm
from locks.dashboard.webhooks.queries import STATUSES, DeliveryFilter, WebhookRow, deliveries, find_webhook
from locks.dashboard.webhooks.queries import webhooks as find_webhooks
from locks.models import Webhook
from locks.services import webhooks as actions


@require_safe
@space_required
@admin_required
def webhooks(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    return page(
        request, place, "webhooks/page.html", {"found": find_webhooks(space=place.space)}, active_page="webhooks"
    )


@require_safe
@space_required
@admin_required
def webhook(request: HttpRequest, place: SpaceContext, public_id: str) -> HttpResponse:
    found = find(place, public_id)
    wanted = DeliveryFilter.of(request.GET)
    context = {
        "webhook": found,
        "wanted": wanted,
        "found": deliveries(webhook=found, wanted=wanted),
        "statuses": STATUSES,
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, place, "webhooks/board.html", context)
    return page(request, place, "webhooks/webhook.html", context, active_page="webhooks")


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
@sensitive_variables("secret")
def create(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    if request.method != "POST":
        return _form_page(request, place, WebhookForm(initial={"kinds": [value for value, *_ in KINDS]}))
    form = WebhookForm(request.POST)
    if not form.is_valid():
        return _form_page(request, place, form, status=422)
    try:
        secret, made = actions.create(actor=actor(request), space=place.space, **_terms(form))
    except actions.TooMany:
        form.add_error(None, f"The space has {actions.MAX_IN_A_SPACE} webhooks already. Delete one first.")
        return _form_page(request, place, form, status=409)
    return secret_page(request, place, secret, find(place, made.public_id))


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
def change(request: HttpRequest, place: SpaceContext, public_id: str) -> HttpResponse:
    """Where it delivers to decides who hears of what happens, so it asks who is there as well."""
    found = find(place, public_id)
    if request.method != "POST":
        chosen = found.kinds or [value for value, *_ in KINDS]
        form = WebhookForm(initial={"url": found.url, "kinds": chosen, "starts_with": found.prefix})
        return _form_page(request, place, form, webhook=found)
    form = WebhookForm(request.POST)
    if not form.is_valid():
        return _form_page(request, place, form, webhook=found, status=422)
    actions.change(actor=actor(request), webhook=get_model(found), **_terms(form))
    return redirect(place.url("webhook", public_id=public_id))


def find(place: SpaceContext, public_id: str) -> WebhookRow:
    found = find_webhook(space=place.space, public_id=public_id)
    if found is None:
        raise Http404
    return found


def get_model(row: WebhookRow) -> Webhook:
    return Webhook.objects.select_related("space").get(pk=row.id)


@sensitive_variables("secret")
def secret_page(
    request: HttpRequest, place: SpaceContext, secret: str, webhook: WebhookRow, *, is_new: bool = True
) -> HttpResponse:
    context = {"secret": secret, "webhook": webhook, "is_new": is_new}
    return page(request, place, "webhooks/secret.html", context, active_page="webhooks")


def _terms(form: WebhookForm) -> dict[str, Any]:
    return {"url": form.cleaned_data["url"], "kinds": form.kinds_chosen, "prefix": form.cleaned_data["starts_with"]}


def _form_page(
    request: HttpRequest,
    place: SpaceContext,
    form: WebhookForm,
    *,
    webhook: WebhookRow | None = None,
    status: int = 200,
) -> HttpResponse:
    context = {"form": form, "kinds": KINDS, "webhook": webhook}
    return page(request, place, "webhooks/form.html", context, active_page="webhooks", status=status)
