"""Tokens: the list, issuing one, rotating and revoking.

The answer to the POST that makes a token is the one page that shows it. There is no redirect, so the token is in no
address and no session; asking again for the same page asks to issue it again, which its name refuses.
"""

from datetime import timedelta
from typing import Any

from django.db import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from locks.dashboard.access import SpaceContext, actor, admin_required, current_user, space_required
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.dashboard.tokens import snippets
from locks.dashboard.tokens.description import ABILITIES, describe_token
from locks.dashboard.tokens.forms import PRESET_CHOICES, IssueTokenForm, RevokeTokenForm, RotateTokenForm
from locks.dashboard.tokens.queries import TokenFilter, TokenRow, find_token, prefix_match_count
from locks.dashboard.tokens.queries import tokens as find_tokens
from locks.models import Token
from locks.models.token import PRESETS
from locks.services import clock
from locks.services import tokens as actions


@require_safe
@space_required
def tokens(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    wanted = TokenFilter.of(request.GET)
    context = {"wanted": wanted, "found": find_tokens(space=place.space, wanted=wanted)}
    if is_htmx_target(request, "live-content"):
        return partial(request, place, "tokens/board.html", context)
    return page(request, place, "tokens/page.html", context, active_page="tokens")


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
@sensitive_variables("plaintext")
def issue(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    if request.method != "POST":
        return _form_page(request, place, _form(place, None))
    form = _form(place, request.POST)
    if not form.is_valid():
        return _form_page(request, place, form, status=422)
    try:
        plaintext, token = actions.issue(
            actor=actor(request),
            space=place.space,
            name=form.cleaned_data["name"],
            scopes=form.scopes_chosen,
            prefixes=form.cleaned_data["prefixes"],
            expires_at=form.expires_at or actions.Expiry.NEVER,
            created_by=current_user(request),
        )
    except (IntegrityError, actions.MustExpire):
        # Somebody took the name or changed the rule meanwhile; checked again, the form says which.
        return _form_page(request, place, _form(place, request.POST, ask=True), status=409)
    return _shown_once(request, place, plaintext, token)


@require_POST
@space_required
@admin_required
def sentence(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    """What the token would be able to do, as far as the form is filled in."""
    form = _form(place, request.POST)
    form.is_valid()
    if is_htmx_target(request, "preview"):
        return partial(request, place, "tokens/preview.html", _preview(place, form))
    # Asked for without JavaScript: the same form again. What is missing yet is no mistake yet.
    return _form_page(request, place, form)


@require_safe
@space_required
def first_use(request: HttpRequest, place: SpaceContext, public_id: str) -> HttpResponse:
    return partial(request, place, "tokens/first_use.html", {"token": _find(place, public_id)})


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
@sensitive_variables("plaintext")
def rotate(request: HttpRequest, place: SpaceContext, public_id: str) -> HttpResponse:
    token = _find(place, public_id)
    form = RotateTokenForm(request.POST) if request.method == "POST" else RotateTokenForm()
    context = {"token": token, "form": form}
    if request.method != "POST" or not token.is_rotatable or not form.is_valid():
        status = 200 if request.method != "POST" else 422 if token.is_rotatable else 409
        return _dialog(request, place, "tokens/rotate.html", context, status=status)
    lasts = form.cleaned_data["lasts"]
    try:
        plaintext, successor = actions.rotate(
            actor=actor(request),
            token=Token.objects.get(pk=token.id),
            overlap=timedelta(seconds=form.cleaned_data["overlap"]),
            lasts=timedelta(days=lasts) if lasts else None,
        )
    except actions.NotRotatable:
        return _dialog(request, place, "tokens/rotate.html", {**context, "token": _find(place, public_id)}, status=409)
    return _shown_once(request, place, plaintext, successor, replaces=_find(place, public_id))


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
def revoke(request: HttpRequest, place: SpaceContext, public_id: str) -> HttpResponse:
    token = _find(place, public_id)
    form = RevokeTokenForm(request.POST) if request.method == "POST" else RevokeTokenForm()
    context: dict[str, Any] = {"token": token, "form": form}
    if request.method != "POST" or not form.is_valid():
        return _dialog(request, place, "tokens/revoke.html", context, status=422 if request.method == "POST" else 200)
    stored = Token.objects.select_related("space__team").get(pk=token.id)
    reason = form.cleaned_data["reason"].strip() or None
    release = form.cleaned_data["leases"] == "release"
    ended = actions.revoke_and_release(actor=actor(request), token=stored, reason=reason, release=release)
    if ended is None:
        return _dialog(request, place, "tokens/revoke.html", context, status=409)
    if release:
        context["released"] = ended.released
    response = _dialog(request, place, "tokens/revoked.html", {**context, "token": _find(place, public_id)})
    response["HX-Trigger"] = "octo:changed"
    return response


def _find(place: SpaceContext, public_id: str) -> TokenRow:
    found = find_token(space=place.space, public_id=public_id)
    if found is None:
        raise Http404
    return found


def _form(place: SpaceContext, data: Any, *, ask: bool = False) -> IssueTokenForm:
    if ask:
        place.space.refresh_from_db(fields=["allow_non_expiring_tokens"])
    form = IssueTokenForm(data, space=place.space, now=clock.now())
    if data is None:
        # So that the sentence beside the empty form is that of what is chosen at first.
        form.cleaned_data = {"preset": "worker", "expiry": "90", "prefixes": []}
    return form


def _preview(place: SpaceContext, form: IssueTokenForm) -> dict[str, Any]:
    prefixes = form.cleaned_data.get("prefixes", [])
    return {
        "name": form.cleaned_data.get("name", ""),
        "sentence": describe_token(scopes=form.scopes_chosen, prefixes=prefixes, expires_at=form.expires_at),
        "never": form.cleaned_data.get("expiry") == "never",
        "matched": prefix_match_count(space=place.space, prefixes=prefixes),
        "prefix_errors": form.errors.get("prefixes") if form.is_bound else None,
    }


def _form_page(request: HttpRequest, place: SpaceContext, form: IssueTokenForm, *, status: int = 200) -> HttpResponse:
    context = {
        "form": form, "presets": PRESET_CHOICES, "abilities": ABILITIES, "preset_scopes": PRESETS,
        **_preview(place, form),
    }  # fmt: skip
    return page(request, place, "tokens/issue.html", context, active_page="tokens", status=status)


@sensitive_variables("plaintext")
def _shown_once(
    request: HttpRequest, place: SpaceContext, plaintext: str, token: Token, *, replaces: TokenRow | None = None
) -> HttpResponse:
    url = f"{request.scheme}://{request.get_host()}"
    context = {
        "plaintext": plaintext,
        "token": _find(place, token.public_id),
        "replaces": replaces,
        "sentence": describe_token(scopes=token.scopes, prefixes=token.prefixes, expires_at=token.expires_at),
        "environment": snippets.environment(url=url, token=plaintext),
        "usage": snippets.usage(scopes=token.scopes, prefixes=token.prefixes),
    }
    return page(request, place, "tokens/issued.html", context, active_page="tokens")


def _dialog(
    request: HttpRequest, place: SpaceContext, template: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    """As force-release: in a dialog every answer is 200, since htmx would treat anything else as a failed request."""
    if is_htmx_target(request, "dialog"):
        return partial(request, place, template, context)
    return page(
        request, place, "tokens/alone.html", {**context, "content": template}, active_page="tokens", status=status
    )
