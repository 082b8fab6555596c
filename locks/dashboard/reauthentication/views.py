"""The confirmation that was required before a page was shown, and the passkey challenge for any confirmation."""

from allauth.mfa.webauthn.internal.auth import begin_authentication
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from locks.dashboard.access import current_user, login_required
from locks.dashboard.mfa.passkeys import to_json
from locks.dashboard.reauthentication.flow import CREDENTIALS, ask, confirm
from locks.dashboard.rendering import is_htmx_target, safe_next_url


@sensitive_post_parameters(*CREDENTIALS)
@require_POST
@login_required
def confirmation(request: HttpRequest) -> HttpResponse:
    next_url = safe_next_url(request, request.POST.get("confirm_next"))
    result = confirm(request, request.POST)
    if not result.is_confirmed:
        return ask(request, None, result=result, next_url=next_url)
    if is_htmx_target(request, "dialog"):
        return render(request, "reauthentication/confirmed.html", {"next_url": next_url})
    return redirect(next_url)


@require_safe
@login_required
def passkey(request: HttpRequest) -> HttpResponse:
    if not settings.PASSKEYS:
        raise Http404
    return JsonResponse(to_json(begin_authentication(current_user(request))))
