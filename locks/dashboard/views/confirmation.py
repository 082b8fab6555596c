"""The proof that was asked for before a page was shown; afterwards that page."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from locks.dashboard.access import signed_in
from locks.dashboard.confirmation import PASSWORD, ask, confirm
from locks.dashboard.shell import asks_for, own_address


@sensitive_post_parameters(PASSWORD)
@require_POST
@signed_in
def confirmation(request: HttpRequest) -> HttpResponse:
    back = own_address(request, request.POST.get("confirm_next"))
    outcome = confirm(request, request.POST.get(PASSWORD, ""))
    if not outcome.is_right:
        return ask(request, None, outcome=outcome, back=back)
    if asks_for(request, "dialog"):
        return render(request, "confirmation/confirmed.html", {"back": back})
    return redirect(back)
