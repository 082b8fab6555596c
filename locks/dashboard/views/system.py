"""System: how the installation is. Members see their part of it, superusers all."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard import system as health
from locks.dashboard.access import Place, in_space, person
from locks.dashboard.shell import asks_for, page, part
from locks.dashboard.verdicts import worst
from locks.metrics import processes_and_streams
from locks.models import SpaceUsage
from locks.system_state.counters import counters
from locks.system_state.database import database_state


@require_safe
@in_space
def system(request: HttpRequest, place: Place) -> HttpResponse:
    now = counters()
    used = SpaceUsage.objects.filter(pk=place.space.pk).first()
    live = used.live_locks if used else 0
    context: dict[str, Any]
    if person(request).is_superuser:
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
    if asks_for(request, "board"):
        return part(request, place, "system/board.html", context)
    return page(request, place, "system/page.html", context, here="system")
