"""Tokens: the list, issuing, rotating and revoking.

The response to the POST that creates a token is the one page that shows it. There is no redirect, so the token is in no
URL and no session; reloading the page posts the form again, and the name is then taken.
"""

from datetime import timedelta
from typing import Any

from django.db import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from locks.dashboard import snippets
from locks.dashboard.access import SpaceContext, actor, admin_required, current_user, space_required
from locks.dashboard.dialogs import dialog, refusal
from locks.dashboard.form_rendering import form_status
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.dashboard.tokens.description import describe_token
from locks.dashboard.tokens.forms import IssueTokenForm, RevokeTokenForm, RotateTokenForm
from locks.dashboard.tokens.queries import SHOW_CHOICES, TokenFilters, TokenRow, find_token, prefix_match_count
from locks.dashboard.tokens.queries import tokens as find_tokens
from locks.models import Space, Token
from locks.services import clock
from locks.services import tokens as service


@require_safe
@space_required
def tokens(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    filters = TokenFilters.of(request.GET)
    results = find_tokens(space=space_context.space, filters=filters)
    context = {"filters": filters, "results": results, "show_choices": SHOW_CHOICES}
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "tokens/list.html", context)
    return page(request, space_context, "tokens/page.html", context, active_page="tokens")


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
@sensitive_variables("plaintext")
def issue(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    space = space_context.space
    form = _issue_form(space, request.POST if request.method == "POST" else None)
    if not form.is_valid():
        return _issue_page(request, space_context, form, status=form_status(form))
    try:
        plaintext, token = service.issue(
            actor=actor(request),
            space=space,
            name=form.cleaned_data["name"],
            scopes=form.selected_scopes,
            prefixes=form.cleaned_data["prefixes"],
            expires_at=form.expires_at or service.Expiry.NEVER,
            created_by=current_user(request),
        )
    except (IntegrityError, service.MustExpire):
        # The name was taken or the rule changed at the same moment; validated again, the form says which.
        space.refresh_from_db(fields=["allow_non_expiring_tokens"])
        return _issue_page(request, space_context, _issue_form(space, request.POST), status=409)
    return _secret_page(request, space_context, plaintext, token)


@require_POST
@space_required
@admin_required
def preview(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    """What the token would be able to do, from a form that may be incomplete."""
    form = _issue_form(space_context.space, request.POST)
    form.is_valid()
    if is_htmx_target(request, "preview"):
        return partial(request, space_context, "tokens/preview.html", _preview(space_context.space, form))
    return _issue_page(request, space_context, form)


@require_safe
@space_required
def first_use(request: HttpRequest, space_context: SpaceContext, public_id: str) -> HttpResponse:
    return partial(request, space_context, "tokens/first_use.html", {"token": _find(space_context, public_id)})


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
@sensitive_variables("plaintext")
def rotate(request: HttpRequest, space_context: SpaceContext, public_id: str) -> HttpResponse:
    token = _find(space_context, public_id)
    if not token.is_rotatable:
        return _not_rotatable(request, space_context, token, status=409 if request.method == "POST" else 200)
    form = RotateTokenForm(request.POST or None, unchanged_expiry=_unchanged_expiry(space_context.space, token))
    if not form.is_valid():
        return dialog(
            request, space_context, "tokens/rotate.html", {"token": token, "form": form, "now": token.now},
            title=f"Rotate {token.name}", back_url=space_context.url("tokens"), active_page="tokens",
            status=form_status(form),
        )  # fmt: skip
    lifetime_days = form.cleaned_data["lasts"]
    try:
        plaintext, successor = service.rotate(
            actor=actor(request),
            token=Token.objects.get(pk=token.id),
            overlap=timedelta(seconds=form.cleaned_data["overlap"]),
            lifetime=timedelta(days=lifetime_days) if lifetime_days else None,
        )
    except service.NotRotatable:
        return _not_rotatable(request, space_context, _find(space_context, public_id))
    return _secret_page(request, space_context, plaintext, successor, replaces=_find(space_context, public_id))


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
def revoke(request: HttpRequest, space_context: SpaceContext, public_id: str) -> HttpResponse:
    token = _find(space_context, public_id)
    stored = Token.objects.select_related("space__team").get(pk=token.id)
    predecessors = list(service.predecessors(stored))
    form = RevokeTokenForm(request.POST or None, has_predecessors=bool(predecessors))
    if not form.is_valid() and token.is_revocable:
        context = {"token": token, "predecessors": predecessors, "form": form, "now": token.now}
        return dialog(
            request, space_context, "tokens/revoke.html", context,
            title=f"Revoke {token.name}", back_url=space_context.url("tokens"), active_page="tokens",
            stays_open=True, status=form_status(form),
        )  # fmt: skip
    result = None
    if form.is_valid():
        release = form.cleaned_data["leases"] == "release"
        reason = form.cleaned_data["reason"].strip() or None
        result = service.revoke_and_release(
            actor=actor(request), token=stored, reason=reason, release=release,
            with_predecessors=form.cleaned_data.get("with_predecessors", False),
        )  # fmt: skip
    if result is None:
        return refusal(
            request, space_context, f"{token.name} (octo_{token.public_id}_…) is already revoked or replaced.",
            title="Nothing was revoked", back_url=space_context.url("tokens"), active_page="tokens",
            status=409 if form.is_bound else 200,
        )  # fmt: skip
    context = {
        "token": token, "release": release, "result": result, "still_valid": service.predecessors(stored)
    }  # fmt: skip
    return dialog(
        request, space_context, "tokens/revoked.html", context,
        title="Token revoked", back_url=space_context.url("tokens"), active_page="tokens",
    )  # fmt: skip


def _find(space_context: SpaceContext, public_id: str) -> TokenRow:
    token = find_token(space=space_context.space, public_id=public_id)
    if token is None:
        raise Http404
    return token


def _issue_form(space: Space, data: QueryDict | None) -> IssueTokenForm:
    form = IssueTokenForm(data, space=space, now=clock.now())
    if data is None:
        # The preview beside the empty form describes the initial choices.
        form.cleaned_data = {"preset": "worker", "expiry": "90", "prefixes": []}
    return form


def _preview(space: Space, form: IssueTokenForm) -> dict[str, Any]:
    prefixes = form.cleaned_data.get("prefixes", [])
    return {
        "name": form.cleaned_data.get("name", ""),
        "description": describe_token(scopes=form.selected_scopes, prefixes=prefixes, expires_at=form.expires_at),
        "never_expires": form.cleaned_data.get("expiry") == "never",
        "match_count": prefix_match_count(space=space, prefixes=prefixes),
    }


def _issue_page(
    request: HttpRequest, space_context: SpaceContext, form: IssueTokenForm, *, status: int = 200
) -> HttpResponse:
    context = {"form": form, **_preview(space_context.space, form)}
    return page(request, space_context, "tokens/issue.html", context, active_page="tokens", status=status)


def _unchanged_expiry(space: Space, token: TokenRow) -> str:
    if token.expires_at:
        return f"When the old one would have: {token.expires_at:%-d %B %Y}"
    if space.allow_non_expiring_tokens:
        return "Never, as the old one"
    return "In 90 days, because this space does not allow tokens that never expire"


def _not_rotatable(
    request: HttpRequest, space_context: SpaceContext, token: TokenRow, *, status: int = 409
) -> HttpResponse:
    if token.revoked_at:
        reason = "was revoked. Issue a new one instead."
    elif token.rotated_at:
        reason = "was rotated already. Its successor is in the list; if the new token was not copied, rotate that one."
    else:
        reason = "has expired. Issue a new one instead."
    return refusal(
        request, space_context, f"{token.name} (octo_{token.public_id}_…) {reason}",
        title="Nothing was rotated", back_url=space_context.url("tokens"), active_page="tokens", status=status,
    )  # fmt: skip


@sensitive_variables("plaintext")
def _secret_page(
    request: HttpRequest, space_context: SpaceContext, plaintext: str, token: Token, *, replaces: TokenRow | None = None
) -> HttpResponse:
    url = f"{request.scheme}://{request.get_host()}"
    context = {
        "plaintext": plaintext,
        "token": _find(space_context, token.public_id),
        "replaces": replaces,
        "description": describe_token(scopes=token.scopes, prefixes=token.prefixes, expires_at=token.expires_at),
        "environment": snippets.environment(url=url, token=plaintext),
        "usage": snippets.usage(scopes=token.scopes, prefixes=token.prefixes),
    }
    return page(request, space_context, "tokens/issued.html", context, active_page="tokens")
