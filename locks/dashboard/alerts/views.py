"""Alerts: the rules of a space, the page of one with its messages, and the form.

Members see them, admins change them. The actions of a rule are those of its webhook: see webhooks/views.py.
"""

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe

from locks.dashboard.access import SpaceContext, actor, admin_required, space_required
from locks.dashboard.alerts.forms import AlertRuleForm
from locks.dashboard.alerts.queries import RuleRow, rules
from locks.dashboard.form_rendering import form_status
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.dashboard.webhooks.views import deliveries_context, find, secret_page
from locks.models import AlertRule
from locks.services.alerts import rules as service


@require_safe
@space_required
def alerts(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    context = {"rows": rules(space=space_context.space), "email_is_configured": bool(settings.EMAIL_HOST)}
    return page(request, space_context, "alerts/page.html", context, active_page="alerts")


@require_safe
@space_required
def alert(request: HttpRequest, space_context: SpaceContext, public_id: str) -> HttpResponse:
    webhook = find(space_context, public_id, rules=True)
    row = RuleRow(webhook=webhook, rule=AlertRule.objects.get(pk=webhook.id))
    context = {**deliveries_context(request, webhook), "row": row}
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "webhooks/deliveries.html", context)
    return page(request, space_context, "alerts/rule.html", context, active_page="alerts")


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@sensitive_post_parameters("destination")
@sensitive_variables("secret", "form")
@recently_confirmed
def create(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    form = AlertRuleForm(request.POST if request.method == "POST" else None)
    status = form_status(form)
    if form.is_valid():
        try:
            secret, webhook = service.create(actor=actor(request), space=space_context.space, values=form.values)
        except service.TooManyRules:
            form.add_error(None, f"The space has {service.MAX_RULES_PER_SPACE} alert rules already. Delete one first.")
            status = 409
        else:
            return _done(request, space_context, webhook.public_id, secret)
    return _form_page(request, space_context, {"form": form}, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@sensitive_post_parameters("destination")
@sensitive_variables("secret", "form")
@recently_confirmed
def change(request: HttpRequest, space_context: SpaceContext, public_id: str) -> HttpResponse:
    rule = AlertRule.objects.select_related("webhook__space").filter(
        webhook__space=space_context.space, webhook__public_id=public_id
    ).first()  # fmt: skip
    if rule is None:
        raise Http404
    form = AlertRuleForm(request.POST if request.method == "POST" else None, rule=rule)
    if form.is_valid():
        secret = service.change(actor=actor(request), webhook=rule.webhook, values=form.values)
        return _done(request, space_context, public_id, secret)
    return _form_page(request, space_context, {"form": form, "rule": rule}, status=form_status(form))


@sensitive_variables("secret")
def _done(request: HttpRequest, space_context: SpaceContext, public_id: str, secret: str | None) -> HttpResponse:
    """The page of the rule, or first the new secret, which is shown once."""
    if secret is None:
        return redirect(space_context.url("alert", public_id=public_id))
    return secret_page(request, space_context, secret, find(space_context, public_id), is_new=True)


def _form_page(
    request: HttpRequest, space_context: SpaceContext, context: dict[str, Any], *, status: int
) -> HttpResponse:
    context["email_is_configured"] = bool(settings.EMAIL_HOST)
    return page(request, space_context, "alerts/form.html", context, active_page="alerts", status=status)
