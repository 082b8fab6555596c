"""The proof that was asked for before a page was shown; afterwards that page."""

from allauth.mfa.webauthn.internal.auth import begin_authentication
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from locks.dashboard.access import current_user, login_required
from locks.dashboard.auth.credentials import plain
from locks.dashboard.reauthentication.flow import PROOFS, ask, confirm
from locks.dashboard.rendering import is_htmx_target, safe_next_url


@sensitive_post_parameters(*PROOFS)
@require_POST
@login_required
def confirmation(request: HttpRequest) -> HttpResponse:
    back = safe_next_url(request, request.POST.get("confirm_next"))
    outcome = confirm(request, request.POST)
    if not outcome.is_right:
        return ask(request, None, outcome=outcome, back=back)
    if is_htmx_target(request, "dialog"):
        return render(request, "reauthentication/confirmed.html", {"back": back})
    return redirect(back)


@require_safe
@login_required
def passkey(request: HttpRequest) -> HttpResponse:
    """What the browser is to sign with one of the person's passkeys."""
    if not settings.PASSKEYS:
        raise Http404
    return JsonResponse(plain(begin_authentication(current_user(request))))
