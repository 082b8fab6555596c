"""The team: its members and their roles, its spaces, its audit log; and, for superusers, creating a team."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from locks.dashboard.access import SpaceContext, actor, admin_required, current_user, login_required, space_required
from locks.dashboard.dialogs import dialog, refusal
from locks.dashboard.form_rendering import form_status
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import page
from locks.dashboard.team.forms import NewTeamForm, RoleForm, SpaceRolesForm, TeamNameForm
from locks.dashboard.team.queries import find_team_event, members, pending_invites, team_events, team_spaces
from locks.dashboard.team.roles import ROLE_DESCRIPTIONS
from locks.dashboard.tokens.queries import unexpired_tokens
from locks.models import Membership, Role, User
from locks.pagination import TimeCursor, decode_or_none
from locks.services import members as service
from locks.services import teams
from locks.services.mfa import is_mfa_required

RECENT_EVENTS = 8


@require_safe
@space_required
def team(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    team = space_context.team
    spaces, archived_spaces = team_spaces(team)
    context = {"members": members(team), "roles": ROLE_DESCRIPTIONS, "team_spaces": spaces}
    if space_context.may_manage:
        context |= {
            "archived_spaces": archived_spaces,
            "invites": pending_invites(team),
            "recent_events": team_events(team, limit=RECENT_EVENTS).rows,
        }
    return page(request, space_context, "team/page.html", context, active_page="team")


@require_safe
@space_required
@admin_required
def activity(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    results = team_events(space_context.team, cursor=decode_or_none(request.GET.get("cursor"), TimeCursor))
    return page(request, space_context, "team/activity.html", {"results": results}, active_page="team")


@require_safe
@space_required
@admin_required
def event(request: HttpRequest, space_context: SpaceContext, event_id: int) -> HttpResponse:
    event = find_team_event(space_context.team, event_id=event_id)
    if event is None:
        raise Http404
    return page(request, space_context, "activity/event.html", {"event": event, "of_team": True}, active_page="team")


@require_POST
@space_required
@admin_required
def rename(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    form = TeamNameForm(request.POST)
    if form.is_valid():
        name = form.cleaned_data["name"]
        teams.rename(actor=actor(request), by=current_user(request), team=space_context.team, name=name)
        messages.success(request, f"Team renamed to {name}.")
    else:
        messages.error(request, f"Not renamed. {form.errors['name'][0]}")
    return redirect(space_context.url("team-page"))


@require_POST
@space_required
@admin_required
@recently_confirmed
def change_role(request: HttpRequest, space_context: SpaceContext, user_id: int) -> HttpResponse:
    member = _member(space_context, user_id)
    form = RoleForm(request.POST)
    if not form.is_valid():
        return _unchanged(request, space_context, "Unknown role.", status=422)
    role: Role = form.cleaned_data["role"]
    try:
        changed = service.change_role(
            actor=actor(request), by=current_user(request), team=space_context.team, member=member, role=role
        )
    except service.LastAdmin:
        return _unchanged(request, space_context, LAST_ADMIN)
    except service.NotAMember:
        raise Http404 from None
    if changed:
        messages.success(request, f"{member.get_username()} is now {role.label.lower()}.")
    return redirect(space_context.url("team-page"))


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
def space_roles(request: HttpRequest, space_context: SpaceContext, user_id: int) -> HttpResponse:
    membership = _membership(space_context, user_id)
    member = membership.user
    if membership.role == Role.ADMIN:
        text = f"{member.get_username()} is an admin of the team, and so in every space."
        return _unchanged(request, space_context, text)
    form = SpaceRolesForm(request.POST if request.method == "POST" else None, membership=membership)
    if not form.is_valid():
        return dialog(
            request, space_context, "team/space_roles.html", {"form": form, "member": member, "role": membership.role},
            title=f"Roles of {member.get_username()}", back_url=space_context.url("team-page"), active_page="team",
            status=form_status(form),
        )  # fmt: skip
    try:
        service.set_space_roles(
            actor=actor(request), by=current_user(request), team=space_context.team, member=member, roles=form.roles
        )
    except (service.NotAMember, service.IsAdmin):
        raise Http404 from None
    messages.success(request, f"Roles of {member.get_username()} saved.")
    return redirect(space_context.url("team-page"))


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
def remove(request: HttpRequest, space_context: SpaceContext, user_id: int) -> HttpResponse:
    member = _member(space_context, user_id)
    if request.method != "POST":
        issued = unexpired_tokens().filter(created_by=member, space__team=space_context.team, space__archived_at=None)
        return dialog(
            request, space_context, "team/remove.html", {"member": member, "token_count": issued.count()},
            title=f"Remove {member.get_username()} from {space_context.team.name}",
            back_url=space_context.url("team-page"), active_page="team",
        )  # fmt: skip
    try:
        service.remove(actor=actor(request), by=current_user(request), team=space_context.team, member=member)
    except service.LastAdmin:
        return _unchanged(request, space_context, LAST_ADMIN)
    except service.NotAMember:
        raise Http404 from None
    messages.success(request, f"{member.get_username()} removed from the team.")
    return redirect("dashboard:home" if member == current_user(request) else space_context.url("team-page"))


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
def leave(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    member = _member(space_context, current_user(request).pk)
    if request.method != "POST":
        return dialog(
            request, space_context, "team/leave.html", {},
            title=f"Leave {space_context.team.name}", back_url=space_context.url("team-page"), active_page="team",
        )  # fmt: skip
    try:
        service.leave(actor=actor(request), team=space_context.team, member=member)
    except service.LastAdmin:
        return _unchanged(request, space_context, LAST_ADMIN)
    return redirect("dashboard:home")


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def create(request: HttpRequest) -> HttpResponse:
    user = current_user(request)
    if not user.is_superuser or is_mfa_required(user):
        raise PermissionDenied
    form = NewTeamForm(request.POST or None)
    if form.is_valid():
        try:
            team = teams.create(actor=actor(request), by=user, **form.cleaned_data)
        except IntegrityError:
            form.add_error("slug", "A team with this address was created a moment ago.")
        else:
            return redirect("dashboard:team-page", team=team.slug, space="main")
    return render(request, "team/new.html", {"form": form}, status=form_status(form))


LAST_ADMIN = "A team needs an admin who can sign in, and there is no other. Make another member an admin first."


def _member(space_context: SpaceContext, user_id: int) -> User:
    return _membership(space_context, user_id).user


def _membership(space_context: SpaceContext, user_id: int) -> Membership:
    memberships = Membership.objects.select_related("user", "team").filter(team=space_context.team)
    membership = memberships.filter(user_id=user_id).first()
    if membership is None:
        raise Http404
    return membership


def _unchanged(request: HttpRequest, space_context: SpaceContext, text: str, *, status: int = 409) -> HttpResponse:
    return refusal(
        request, space_context, text,
        title="Nothing was changed", back_url=space_context.url("team-page"), active_page="team", status=status,
    )  # fmt: skip
