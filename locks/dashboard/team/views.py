"""Team: who belongs to it as what, its spaces, and what people did to them."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from locks.dashboard.access import SpaceContext, actor, admin_required, current_user, space_required
from locks.dashboard.activity.queries import parse_position
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.dashboard.team.forms import ROLE_NOTES, RoleForm, TeamNameForm
from locks.dashboard.team.queries import find_team_event, invitations, members, team_events, team_spaces
from locks.models import Membership, Role, Token, User
from locks.services import members as actions
from locks.services import teams

LATEST = 8


@require_safe
@space_required
def team(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    there, archived = team_spaces(place.team)
    context = {
        "members": members(place.team),
        "roles": ROLE_NOTES,
        "team_spaces": there,
        "archived": archived if place.may_manage else [],
        "invites": invitations(place.team) if place.may_manage else [],
        "latest": team_events(place.team, limit=LATEST).events if place.may_manage else [],
    }
    return page(request, place, "team/page.html", context, active_page="team")


@require_safe
@space_required
@admin_required
def activity(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    found = team_events(place.team, before=parse_position(request.GET.get("before", "")))
    return page(request, place, "team/activity.html", {"found": found}, active_page="team")


@require_safe
@space_required
@admin_required
def event(request: HttpRequest, place: SpaceContext, event_id: int) -> HttpResponse:
    found = find_team_event(place.team, event_id=event_id)
    if found is None:
        raise Http404
    return page(request, place, "activity/event.html", {"event": found, "of_team": True}, active_page="team")


@require_POST
@space_required
@admin_required
def rename(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    form = TeamNameForm(request.POST)
    if not form.is_valid():
        messages.error(request, f"The team keeps its name. {form.errors['name'][0]}")
        return redirect_to_team(place)
    teams.rename(actor=actor(request), by=current_user(request), team=place.team, name=form.cleaned_data["name"])
    messages.success(request, f"The team is called {form.cleaned_data['name']} now.")
    return redirect_to_team(place)


@require_POST
@space_required
@admin_required
@recently_confirmed
def change_role(request: HttpRequest, place: SpaceContext, user_id: int) -> HttpResponse:
    member = _member(place, user_id)
    form = RoleForm(request.POST)
    if not form.is_valid():
        return _refused(request, place, member, "There is no such role.", status=422)
    role: Role = form.cleaned_data["role"]
    try:
        changed = actions.change_role(
            actor=actor(request), by=current_user(request), team=place.team, member=member, role=role
        )
    except actions.LastAdmin:
        return _refused(request, place, member, LAST_ADMIN)
    except actions.NoMember:
        raise Http404 from None
    if changed:
        messages.success(request, f"{member.get_username()} is {role.label.lower()} from now on.")
    return redirect_to_team(place)


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
def remove(request: HttpRequest, place: SpaceContext, user_id: int) -> HttpResponse:
    member = _member(place, user_id)
    if request.method != "POST":
        issued = Token.objects.filter(
            created_by=member, space__team=place.team, space__archived_at=None, revoked_at=None
        )
        return dialog(request, place, "team/remove.html", {"member": member, "tokens": issued.count()})
    try:
        actions.remove(actor=actor(request), by=current_user(request), team=place.team, member=member)
    except actions.LastAdmin:
        return _refused(request, place, member, LAST_ADMIN)
    except actions.NoMember:
        raise Http404 from None
    messages.success(request, f"{member.get_username()} is out of the team, in every browser, at once.")
    return redirect("dashboard:home") if member == current_user(request) else redirect_to_team(place)


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
def leave(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    member = _member(place, current_user(request).pk)
    if request.method != "POST":
        return dialog(request, place, "team/leave.html", {"member": member})
    try:
        actions.leave(actor=actor(request), team=place.team, member=member)
    except actions.LastAdmin:
        return _refused(request, place, member, LAST_ADMIN)
    return redirect("dashboard:home")


LAST_ADMIN = "A team needs an admin who can sign in, and there is no other. Make somebody else an admin first."


def _member(place: SpaceContext, user_id: int) -> User:
    """Of this team: others do not exist here."""
    found = Membership.objects.select_related("user").filter(team=place.team, user_id=user_id).first()
    if found is None:
        raise Http404
    return found.user


def _refused(request: HttpRequest, place: SpaceContext, member: User, why: str, *, status: int = 409) -> HttpResponse:
    return dialog(request, place, "team/refused.html", {"member": member, "why": why}, status=status)


def redirect_to_team(place: SpaceContext) -> HttpResponse:
    return redirect(place.url("team-page"))


def dialog(
    request: HttpRequest, place: SpaceContext, template: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    if is_htmx_target(request, "dialog"):
        return partial(request, place, template, context)
    return page(request, place, "team/alone.html", {**context, "content": template}, active_page="team", status=status)
