"""System: the health of the installation. Superusers see all checks, members those that concern their locks."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import SpaceContext, current_user, space_required
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.dashboard.system import queries
from locks.metrics import processes_and_streams
from locks.models import SpaceUsage
from locks.system_state.counters import counters as latest_counters
from locks.system_state.database import database_state
from locks.system_state.health import worst


@require_safe
@space_required
def system(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    space = space_context.space
    counters = latest_counters()
    usage = SpaceUsage.objects.filter(pk=space.pk).first() or SpaceUsage()
    usage.space = space
    context: dict[str, Any]
    if current_user(request).is_superuser:
        database = database_state()
        processes, streams = processes_and_streams()
        checks = queries.checks_for_superusers(counters, database, processes=processes, streams=streams, usage=usage)
        context = {"task_runs": queries.task_runs(counters), "versions": queries.versions(database)}
    else:
        checks = queries.checks_for_members(counters, usage=usage)
        context = {"versions": [("Octoadmin", str(settings.VERSION))]}
    context |= {"checks": checks, "health": worst([check.health for check in checks]), "now": counters.server_time}
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "system/checks.html", context)
    return page(request, space_context, "system/page.html", context, active_page="system")
