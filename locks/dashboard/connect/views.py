"""Connect: how a worker gets its first lock here, ready to paste; it waits for that lock and says when it has come."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.connect.queries import environment, first_lease, snippets
from locks.dashboard.rendering import is_htmx_target, page, partial


@require_safe
@space_required
def connect(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    context = {"arrival": first_lease(space=place.space)}
    if is_htmx_target(request, "live-content"):
        return partial(request, place, "connect/first_lease.html", context)
    address = f"{request.scheme}://{request.get_host()}"
    lines = {"environment": environment(address=address), "snippets": snippets(address=address)}
    return page(request, place, "connect/page.html", {**context, **lines}, active_page="connect")
