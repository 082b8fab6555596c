"""Connect: how a worker gets its first lock here, ready to paste; it waits for that lock and says when it has come."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import Place, in_space
from locks.dashboard.connecting import arrival, environment, snippets
from locks.dashboard.shell import asks_for, page, part


@require_safe
@in_space
def connect(request: HttpRequest, place: Place) -> HttpResponse:
    context = {"arrival": arrival(space=place.space)}
    if asks_for(request, "board"):
        return part(request, place, "connect/arrival.html", context)
    address = f"{request.scheme}://{request.get_host()}"
    lines = {"environment": environment(address=address), "snippets": snippets(address=address)}
    return page(request, place, "connect/page.html", {**context, **lines}, here="connect")
