"""Owner: one owner of locks."""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.owner.queries import owner_detail
from locks.dashboard.rendering import is_htmx_target, page, partial


@require_safe
@space_required
def owner(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    name = request.GET.get("name", "").replace("\0", "")
    detail = owner_detail(space=space_context.space, owner=name) if name else None
    if detail is None:
        raise Http404
    context = {"detail": detail}
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "owner/owner_detail.html", context)
    return page(request, space_context, "owner/page.html", context, active_page="owners")
