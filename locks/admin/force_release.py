"""The admin action that force-releases locks. It asks for a reason and goes through the engine, as everywhere."""

from collections import defaultdict
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from locks.engine.execution import run
from locks.engine.operations import force_release
from locks.engine.verdicts import Verdict
from locks.models import Lock
from locks.services.audit import Actor
from locks.services.force_release import COOLDOWNS, MAX_REASON, authorized_by, force_release_request

# For more, the dashboard has bulk releases, which show their progress and can be stopped.
MAX_LOCKS = 100

_SKIPPED = {
    Verdict.FENCING_MISMATCH: "Skipped, because another holder has acquired it since: ",
    Verdict.NOT_HELD: "Skipped, because it is not held any more: ",
}


class ReasonForm(forms.Form):
    reason = forms.CharField(max_length=MAX_REASON)
    lock_delay_seconds = forms.TypedChoiceField(coerce=int, choices=COOLDOWNS)


@admin.action(description="Force-release…", permissions=["force"])
def force_release_action(model_admin: Any, request: HttpRequest, selected: QuerySet[Lock]) -> HttpResponse | None:
    locks = list(selected.filter(lease_id__isnull=False).select_related("space__team")[: MAX_LOCKS + 1])
    if not locks:
        messages.warning(request, "None of these locks is held, so there is nothing to release.")
        return None
    if len(locks) > MAX_LOCKS:
        messages.error(request, f"Select at most {MAX_LOCKS} here; the dashboard releases thousands at once.")
        return None
    prompt: HttpResponse | None = model_admin.admin_site.require_reauthentication(request)
    if prompt is not None:
        return prompt
    # The first post comes from the list of locks, without these fields.
    form = ReasonForm(request.POST if "reason" in request.POST else None)
    if form.is_valid():
        _release(request, locks, **form.cleaned_data)
        return None
    context = {
        **model_admin.admin_site.each_context(request),
        "title": "Force-release",
        "opts": model_admin.model._meta,
        "locks": locks,
        "delays": COOLDOWNS,
        "failed": form.is_bound,
        "max_reason": MAX_REASON,
    }
    return TemplateResponse(request, "admin/force_release.html", context, status=422 if form.is_bound else 200)


def _release(request: HttpRequest, locks: list[Lock], *, reason: str, lock_delay_seconds: int) -> None:
    shown = _shown_fencing_tokens(request)
    actor = Actor.of_request(request)
    batch = [
        force_release_request(
            authorized_by(actor, space_id=lock.space_id),
            name=lock.name,
            reason=reason,
            # 0 matches no lease, so a lock that the page did not show is skipped.
            fencing_token=shown.get(lock.pk, 0),
            lock_delay_seconds=lock_delay_seconds,
        )
        for lock in locks
    ]
    names: dict[Verdict, list[str]] = defaultdict(list)
    for result in run(force_release(batch)):
        names[Verdict(result.verdict)].append(result.name)
    if released := names.pop(Verdict.RELEASED, []):
        messages.success(request, f"Released: {', '.join(released)}.")
    for verdict, skipped in names.items():
        messages.warning(request, f"{_SKIPPED[verdict]}{', '.join(skipped)}.")


def _shown_fencing_tokens(request: HttpRequest) -> dict[int, int]:
    """By the id of the lock."""
    pairs = (value.partition(":") for value in request.POST.getlist("shown"))
    return {int(lock): int(token) for lock, _, token in pairs if lock.isdecimal() and token.isdecimal()}
