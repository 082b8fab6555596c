"""Taking locks by force from the console: asks for a reason and goes through the engine, as everywhere."""

from collections import defaultdict
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from locks.dashboard.access import current_user, request_id
from locks.dashboard.forms import DELAYS, MAX_REASON
from locks.dashboard.reauthentication.flow import require_reauthentication
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import force_release
from locks.engine.verdicts import Verdict
from locks.models import Channel, Lock

# The dashboard's bulk release is for more: it shows how far it is and can be stopped.
MAX_LOCKS = 100

_SKIPPED = {
    Verdict.FENCING_MISMATCH: "Skipped, because somebody else has got it since: ",
    Verdict.NOT_HELD: "Skipped, because nobody held it any more: ",
}


@admin.action(description="Release by force…", permissions=["force"])
def release_by_force(model_admin: Any, request: HttpRequest, chosen: QuerySet[Lock]) -> HttpResponse | None:
    locks = list(chosen.filter(lease_id__isnull=False).select_related("space__team")[: MAX_LOCKS + 1])
    if not locks:
        messages.warning(request, "Nobody holds any of them, so there is nothing to release.")
        return None
    if len(locks) > MAX_LOCKS:
        messages.error(request, f"Choose at most {MAX_LOCKS} here; the dashboard releases thousands at once.")
        return None
    if asked := require_reauthentication(request):
        return asked
    reason = request.POST.get("reason", "").strip()
    delay = request.POST.get("lock_delay_seconds", "")
    wanted = {str(seconds): seconds for seconds, _words in DELAYS}
    if reason and len(reason) <= MAX_REASON and delay in wanted:
        _release(request, locks, reason=reason, delay=wanted[delay])
        return None
    context = {
        **model_admin.admin_site.each_context(request),
        "title": "Release by force",
        "opts": model_admin.model._meta,
        "locks": locks,
        "delays": DELAYS,
        "failed": "reason" in request.POST,
        "longest_reason": MAX_REASON,
    }
    return TemplateResponse(request, "admin/force_release.html", context, status=422 if context["failed"] else 200)


def _release(request: HttpRequest, locks: list[Lock], *, reason: str, delay: int) -> None:
    shown = _shown(request)
    user = current_user(request)
    asked = [
        requests.ForceRelease(
            digest=None,
            space_id=lock.space_id,
            actor_id=user.pk,
            actor_name=user.get_username(),
            channel=Channel.WEB.value,
            address=request.META.get("REMOTE_ADDR"),
            request_id=request_id(request),
            name=lock.name,
            reason=reason,
            # A lock that was not shown has a guard that fits no lease.
            expected_fencing_token=shown.get(lock.pk, 0),
            lock_delay_seconds=delay,
        )
        for lock in locks
    ]
    names: dict[Verdict, list[str]] = defaultdict(list)
    for outcome in run(force_release(asked)):
        names[Verdict(outcome.verdict)].append(outcome.name)
    if released := names.pop(Verdict.RELEASED, []):
        messages.success(request, f"Released: {', '.join(released)}.")
    for verdict, skipped in names.items():
        messages.warning(request, f"{_SKIPPED[verdict]}{', '.join(skipped)}.")


def _shown(request: HttpRequest) -> dict[int, int]:
    """The fencing tokens that the page showed, by lock."""
    pairs = (value.partition(":") for value in request.POST.getlist("shown"))
    return {int(lock): int(token) for lock, _, token in pairs if lock.isdecimal() and token.isdecimal()}
