"""Webhooks: the list, the page of one with its deliveries, and its actions, which are those of alert rules too.

As with tokens, the response to the POST that creates a secret is the one page that shows it.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from locks.dashboard.access import SpaceContext, actor, admin_required, space_required
from locks.dashboard.dialogs import dialog
from locks.dashboard.form_rendering import form_status
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.dashboard.webhooks.forms import DEFAULT_KINDS, RotateSecretForm, WebhookForm
from locks.dashboard.webhooks.queries import STATUS_LABELS, DeliveryFilters, WebhookRow, deliveries, find_webhook
from locks.dashboard.webhooks.queries import webhooks as find_webhooks
from locks.models import Delivery, Webhook
from locks.services import webhooks as service


@require_safe
@space_required
@admin_required
def webhooks(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    context = {"webhooks": find_webhooks(space=space_context.space)}
    return page(request, space_context, "webhooks/page.html", context, active_page="webhooks")


@require_safe
@space_required
@admin_required
def webhook(request: HttpRequest, space_context: SpaceContext, public_id: str) -> HttpResponse:
    webhook = find(space_context, public_id, rules=False)
    context = deliveries_context(request, webhook)
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "webhooks/deliveries.html", context)
    return page(request, space_context, "webhooks/webhook.html", context, active_page="webhooks")


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
@sensitive_variables("secret")
def create(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    form = WebhookForm(request.POST if request.method == "POST" else None)
    status = form_status(form)
    if form.is_valid():
        try:
            secret, created = service.create(actor=actor(request), space=space_context.space, **form.values)
        except service.TooManyWebhooks:
            form.add_error(None, f"The space has {service.MAX_WEBHOOKS_PER_SPACE} webhooks already. Delete one first.")
            status = 409
        else:
            webhook = find(space_context, created.public_id)
            return secret_page(request, space_context, secret, webhook, is_new=True)
    return page(request, space_context, "webhooks/form.html", {"form": form}, active_page="webhooks", status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
def change(request: HttpRequest, space_context: SpaceContext, public_id: str) -> HttpResponse:
    webhook = find(space_context, public_id, rules=False)
    initial = {"url": webhook.url, "kinds": webhook.kinds or DEFAULT_KINDS, "starts_with": webhook.prefix}
    form = WebhookForm(request.POST if request.method == "POST" else None, initial=initial)
    if form.is_valid():
        service.change(actor=actor(request), webhook=get_model(webhook), **form.values)
        return redirect(space_context.url("webhook", public_id=public_id))
    context = {"form": form, "webhook": webhook}
    return page(request, space_context, "webhooks/form.html", context, active_page="webhooks", status=form_status(form))


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
@sensitive_variables("secret")
def rotate(request: HttpRequest, space_context: SpaceContext, public_id: str) -> HttpResponse:
    webhook = find(space_context, public_id)
    if not webhook.signs:
        raise Http404
    form = RotateSecretForm(request.POST or None)
    if not form.is_valid():
        return dialog(
            request, space_context, "webhooks/rotate.html", {"webhook": webhook, "form": form},
            title="Rotate the secret", back_url=space_context.url(webhook.page, public_id=public_id),
            active_page=f"{webhook.page}s", status=form_status(form),
        )  # fmt: skip
    overlap = timedelta(seconds=form.cleaned_data["overlap"])
    secret = service.rotate_secret(actor=actor(request), webhook=get_model(webhook), overlap=overlap)
    return secret_page(request, space_context, secret, find(space_context, public_id), is_new=False)


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
def delete(request: HttpRequest, space_context: SpaceContext, public_id: str) -> HttpResponse:
    webhook = find(space_context, public_id)
    if request.method != "POST":
        return dialog(
            request, space_context, "webhooks/delete.html", {"webhook": webhook},
            title="Delete this alert rule" if webhook.rule_name else "Delete this webhook",
            back_url=space_context.url(webhook.page, public_id=public_id), active_page=f"{webhook.page}s",
        )  # fmt: skip
    service.delete(actor=actor(request), webhook=get_model(webhook))
    return redirect(space_context.url(f"{webhook.page}s"))


def post_action(action: Callable[..., None]) -> Callable[..., HttpResponseBase]:
    """A view that runs the action and leads back to the page of the webhook or alert rule."""

    @require_POST
    @space_required
    @admin_required
    @wraps(action)
    def view(request: HttpRequest, space_context: SpaceContext, public_id: str, **arguments: Any) -> HttpResponse:
        webhook = find(space_context, public_id)
        action(request, get_model(webhook), **arguments)
        return redirect(space_context.url(webhook.page, public_id=public_id))

    return view


@post_action
def send_test(request: HttpRequest, webhook: Webhook) -> None:
    service.send_test(actor=actor(request), webhook=webhook)


@post_action
def pause(request: HttpRequest, webhook: Webhook) -> None:
    service.pause(actor=actor(request), webhook=webhook)


@post_action
def resume(request: HttpRequest, webhook: Webhook) -> None:
    service.resume(actor=actor(request), webhook=webhook)


@post_action
def replay_all(request: HttpRequest, webhook: Webhook) -> None:
    service.replay(actor=actor(request), webhook=webhook)


@post_action
def replay_one(request: HttpRequest, webhook: Webhook, delivery_id: UUID) -> None:
    """A pending delivery stays as it is."""
    delivery = Delivery.objects.filter(webhook=webhook, public_id=delivery_id).first()
    if delivery is None:
        raise Http404
    service.replay(actor=actor(request), webhook=webhook, delivery=delivery)


def find(space_context: SpaceContext, public_id: str, *, rules: bool | None = None) -> WebhookRow:
    """A webhook, one of an alert rule, or either."""
    webhook = find_webhook(space=space_context.space, public_id=public_id, rules=rules)
    if webhook is None:
        raise Http404
    return webhook


def get_model(row: WebhookRow) -> Webhook:
    return Webhook.objects.select_related("space", "alert_rule").get(pk=row.id)


def deliveries_context(request: HttpRequest, webhook: WebhookRow) -> dict[str, Any]:
    filters = DeliveryFilters.of(request.GET)
    results = deliveries(webhook=webhook, filters=filters)
    return {"webhook": webhook, "filters": filters, "results": results, "statuses": STATUS_LABELS}


@sensitive_variables("secret")
def secret_page(
    request: HttpRequest, space_context: SpaceContext, secret: str, webhook: WebhookRow, *, is_new: bool
) -> HttpResponse:
    context = {"secret": secret, "webhook": webhook, "is_new": is_new}
    return page(request, space_context, "webhooks/secret.html", context, active_page=f"{webhook.page}s")
