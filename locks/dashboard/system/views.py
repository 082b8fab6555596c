"""System: how the installation is. Members see their partial of it, superusers all."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import SpaceContext, current_user, space_required
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.dashboard.system import queries as health
from locks.dashboard.system.health_checks import worst
from locks.models import SpaceUsage
from octoadmin.probes.counters import counters
from octoadmin.probes.database import database_state
from octoadmin.probes.metrics import processes_and_streams


@require_safe
@space_required
def system(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    now = counters()
    used = SpaceUsage.objects.filter(pk=place.space.pk).first()
    live = used.live_locks if used else 0
    context: dict[str, Any]
    if current_user(request).is_superuser:
        database = database_state()
        processes, streams = processes_and_streams()
        checks = health.for_superusers(
            now, database, processes=processes, streams=streams, space=place.space, live_locks=live
        )
        context = {"runs": health.judged_runs(now), "versions": health.versions(database)}
    else:
        checks = health.for_members(now, space=place.space, live_locks=live)
        context = {"versions": [("Octoadmin", str(settings.VERSION))]}
    context |= {"checks": checks, "worst": worst(checks), "now": now.server_time}
    if is_htmx_target(request, "live-content"):
        return partial(request, place, "system/board.html", context)
    return page(request, place, "system/page.html", context, active_page="system")
