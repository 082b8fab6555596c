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

from locks.dashboard.access import Place, actor, in_space, managing
from locks.dashboard.confirmation import recently_confirmed
from locks.dashboard.shell import asks_for, page, part
from locks.dashboard.views.webhooks import find, shown_once, stored
from locks.dashboard.webhook_forms import RotateSecretForm
from locks.models import Delivery, Webhook
from locks.services import webhooks as actions

Act = Callable[..., Any]


def _act(act: Act) -> Callable[..., HttpResponseBase]:
    """Done, and back to the page of the webhook, which shows what came of it."""

    @require_POST
    @in_space
    @managing
    @wraps(act)
    def acted(request: HttpRequest, place: Place, public_id: str, **arguments: Any) -> HttpResponse:
        act(request, stored(find(place, public_id)), **arguments)
        return redirect(place.url("webhook", public_id=public_id))

    return acted


@_act
def send_test(request: HttpRequest, webhook: Webhook) -> None:
    actions.send_test(actor=actor(request), webhook=webhook)


@_act
def pause(request: HttpRequest, webhook: Webhook) -> None:
    actions.pause(actor=actor(request), webhook=webhook)


@_act
def resume(request: HttpRequest, webhook: Webhook) -> None:
    actions.resume(actor=actor(request), webhook=webhook)


@_act
def replay_all(request: HttpRequest, webhook: Webhook) -> None:
    actions.replay(actor=actor(request), webhook=webhook)


@_act
def replay_one(request: HttpRequest, webhook: Webhook, delivery_id: UUID) -> None:
    """One that is on its way already stays so."""
    delivery = Delivery.objects.filter(webhook=webhook, public_id=delivery_id).first()
    if delivery is None:
        raise Http404
    actions.replay(actor=actor(request), webhook=webhook, delivery=delivery)


@require_http_methods(["GET", "HEAD", "POST"])
@in_space
@managing
@recently_confirmed
@sensitive_variables("secret")
def rotate(request: HttpRequest, place: Place, public_id: str) -> HttpResponse:
    webhook = find(place, public_id)
    form = RotateSecretForm(request.POST) if request.method == "POST" else RotateSecretForm()
    if request.method != "POST" or not form.is_valid():
        status = 422 if request.method == "POST" else 200
        return _dialog(request, place, "webhooks/rotate.html", {"webhook": webhook, "form": form}, status=status)
    overlap = timedelta(seconds=form.cleaned_data["overlap"])
    secret = actions.rotate_secret(actor=actor(request), webhook=stored(webhook), overlap=overlap)
    return shown_once(request, place, secret, find(place, public_id), is_new=False)


@require_http_methods(["GET", "HEAD", "POST"])
@in_space
@managing
@recently_confirmed
def delete(request: HttpRequest, place: Place, public_id: str) -> HttpResponse:
    webhook = find(place, public_id)
    if request.method != "POST":
        return _dialog(request, place, "webhooks/delete.html", {"webhook": webhook})
    actions.delete(actor=actor(request), webhook=stored(webhook))
    return redirect(place.url("webhooks"))


def _dialog(
    request: HttpRequest, place: Place, template: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    if asks_for(request, "dialog"):
        return part(request, place, template, context)
    return page(request, place, "webhooks/alone.html", {**context, "content": template}, here="webhooks", status=status)
