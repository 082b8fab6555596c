"""Search: everything that a user may see, by how it begins. A page, and what the palette of every page loads."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from locks.dashboard.access import current_user, login_required
from locks.dashboard.filters import MAX_TEXT
from locks.dashboard.rendering import is_htmx_target
from locks.dashboard.search import queries
from locks.token_format import PATTERN


@require_safe
@login_required
def search(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "").replace("\0", "").strip()[:MAX_TEXT]
    space = request.GET.get("space", "")
    if token := PATTERN.search(text):
        # Its secret must not stay in the address of a page.
        return redirect(f"{request.path}?{urlencode({'q': token[1], 'space': space})}")
    in_palette = is_htmx_target(request, "palette-results")
    groups = queries.search(current_user(request), text, first=space)
    context = {"text": text, "space": space, "groups": groups, "in_palette": in_palette}
    return render(request, "search/results.html" if in_palette else "search/page.html", context)
