"""The proof that was asked for before a page was shown; afterwards that page."""

from allauth.mfa.webauthn.internal.auth import begin_authentication
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from locks.dashboard.access import person, signed_in
from locks.dashboard.confirmation import PROOFS, ask, confirm
from locks.dashboard.entering.proofs import plain
from locks.dashboard.shell import asks_for, own_address


@sensitive_post_parameters(*PROOFS)
@require_POST
@signed_in
def confirmation(request: HttpRequest) -> HttpResponse:
    back = own_address(request, request.POST.get("confirm_next"))
    outcome = confirm(request, request.POST)
    if not outcome.is_right:
        return ask(request, None, outcome=outcome, back=back)
    if asks_for(request, "dialog"):
        return render(request, "confirmation/confirmed.html", {"back": back})
    return redirect(back)


@require_safe
@signed_in
def passkey(request: HttpRequest) -> HttpResponse:
    """What the browser is to sign with one of the person's passkeys."""
    if not settings.PASSKEYS:
        raise Http404
    return JsonResponse(plain(begin_authentication(person(request))))
