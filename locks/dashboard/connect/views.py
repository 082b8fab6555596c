"""Connect: how a worker claims its first lock, ready to paste. The page waits for that lease and announces it."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard import snippets
from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.connect.queries import first_lease
from locks.dashboard.rendering import is_htmx_target, page, partial


@require_safe
@space_required
def connect(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    context: dict[str, Any] = {"first_lease": first_lease(space=space_context.space)}
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "connect/first_lease.html", context)
    url = f"{request.scheme}://{request.get_host()}"
    usage = [*snippets.claim(url=url), snippets.github_actions(url=url)]
    context |= {
        "environment": snippets.environment(url=url),
        "usage": usage,
        "agents": snippets.agents(url=url),
    }
    return page(request, space_context, "connect/page.html", context, active_page="connect")
