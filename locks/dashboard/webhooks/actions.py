"""What one does with a webhook: test, pause, resume, replay, rotate its secret, delete."""

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from locks.dashboard.access import SpaceContext, actor, admin_required, space_required
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.dashboard.webhooks.forms import RotateSecretForm
from locks.dashboard.webhooks.views import find, get_model, secret_page
from locks.models import Delivery, Webhook
from locks.services import webhooks as actions

Act = Callable[..., Any]


def post_action(act: Act) -> Callable[..., HttpResponseBase]:
    """Done, and back to the page of the webhook, which shows what came of it."""

    @require_POST
    @space_required
    @admin_required
    @wraps(act)
    def acted(request: HttpRequest, place: SpaceContext, public_id: str, **arguments: Any) -> HttpResponse:
        act(request, get_model(find(place, public_id)), **arguments)
        return redirect(place.url("webhook", public_id=public_id))

    return acted


@post_action
def send_test(request: HttpRequest, webhook: Webhook) -> None:
    actions.send_test(actor=actor(request), webhook=webhook)


@post_action
def pause(request: HttpRequest, webhook: Webhook) -> None:
    actions.pause(actor=actor(request), webhook=webhook)


@post_action
def resume(request: HttpRequest, webhook: Webhook) -> None:
    actions.resume(actor=actor(request), webhook=webhook)


@post_action
def replay_all(request: HttpRequest, webhook: Webhook) -> None:
    actions.replay(actor=actor(request), webhook=webhook)


@post_action
def replay_one(request: HttpRequest, webhook: Webhook, delivery_id: UUID) -> None:
    """One that is on its way already stays so."""
    delivery = Delivery.objects.filter(webhook=webhook, public_id=delivery_id).first()
    if delivery is None:
        raise Http404
    actions.replay(actor=actor(request), webhook=webhook, delivery=delivery)


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
@sensitive_variables("secret")
def rotate(request: HttpRequest, place: SpaceContext, public_id: str) -> HttpResponse:
    webhook = find(place, public_id)
    form = RotateSecretForm(request.POST) if request.method == "POST" else RotateSecretForm()
    if request.method != "POST" or not form.is_valid():
        status = 422 if request.method == "POST" else 200
        return _dialog(request, place, "webhooks/rotate.html", {"webhook": webhook, "form": form}, status=status)
    overlap = timedelta(seconds=form.cleaned_data["overlap"])
    secret = actions.rotate_secret(actor=actor(request), webhook=get_model(webhook), overlap=overlap)
    return secret_page(request, place, secret, find(place, public_id), is_new=False)


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
def delete(request: HttpRequest, place: SpaceContext, public_id: str) -> HttpResponse:
    webhook = find(place, public_id)
    if request.method != "POST":
        return _dialog(request, place, "webhooks/delete.html", {"webhook": webhook})
    actions.delete(actor=actor(request), webhook=get_model(webhook))
    return redirect(place.url("webhooks"))


def _dialog(
    request: HttpRequest, place: SpaceContext, template: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    if is_htmx_target(request, "dialog"):
        return partial(request, place, template, context)
    return page(
        request, place, "webhooks/alone.html", {**context, "content": template}, active_page="webhooks", status=status
    )
