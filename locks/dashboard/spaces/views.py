"""Spaces of a team: make one, set its limits, archive and restore it; and, for superusers, a whole new team."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from locks.dashboard.access import SpaceContext, actor, admin_required, current_user, login_required, space_required
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import page
from locks.dashboard.team.forms import ArchiveForm, LimitsForm, NewSpaceForm, NewTeamForm
from locks.dashboard.team.queries import active_token_count
from locks.dashboard.team.views import dialog, redirect_to_team
from locks.models import Space
from locks.services import spaces as actions
from locks.services import teams
from locks.services.force_release import live_leases
from locks.services.mfa import is_mfa_required


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
def create(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    form = NewSpaceForm(request.POST or None, team=place.team)
    if request.method == "POST" and form.is_valid():
        try:
            space = actions.create(
                actor=actor(request), by=current_user(request), team=place.team, space=form.save(commit=False)
            )
        except IntegrityError:
            form.add_error("slug", "Somebody made a space with this address just now.")
        else:
            messages.success(request, f"{space.name} is there. Issue a token of it, and workers can begin.")
            return redirect(reverse("dashboard:team-page", kwargs={"team": place.team.slug, "space": space.slug}))
    status = 422 if request.method == "POST" else 200
    return page(request, place, "team/space_new.html", {"form": form}, active_page="team", status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
def limits(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    # A copy: a form that is refused has changed its instance, and the page around it still shows the real one.
    stored = Space.objects.get(pk=place.space.pk)
    form = LimitsForm(request.POST or None, instance=stored)
    if request.method == "POST" and form.is_valid():
        changed = actions.change(
            actor=actor(request), by=current_user(request), space=place.space, changes=form.changes
        )
        if changed:
            messages.success(request, f"{stored.name} has new limits. They hold from the next request on.")
        return redirect_to_team(place)
    context = {"form": form, "held": live_leases(space=place.space).count()}
    return page(
        request, place, "team/limits.html", context, active_page="team", status=422 if request.method == "POST" else 200
    )


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
def archive(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    form = ArchiveForm(request.POST or None, slug=place.space.slug)
    context = {"form": form, "held": live_leases(space=place.space).count()}
    if request.method != "POST":
        return dialog(request, place, "team/archive.html", context)
    if not form.is_valid():
        return dialog(request, place, "team/archive.html", context, status=422)
    release = form.cleaned_data["release"]
    try:
        released = actions.archive(actor=actor(request), by=current_user(request), space=place.space, release=release)
    except actions.LocksAreHeld as held:
        context |= {"held": held.number, "refused": True}
        return dialog(request, place, "team/archive.html", context, status=409)
    except actions.LastSpace:
        return dialog(request, place, "team/archive.html", {**context, "is_last": True}, status=409)
    except actions.AlreadyArchived:
        released = 0
    words = f" {released} leases were taken redirect_to_team." if released else ""
    messages.success(request, f"{place.space.name} is archived.{words}")
    return redirect("dashboard:team", team=place.team.slug)


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
def restore(request: HttpRequest, place: SpaceContext, archived: str) -> HttpResponse:
    """From the page of another space of the team, since its own pages are gone."""
    found = Space.objects.select_related("team").filter(team=place.team, slug=archived).first()
    if found is None:
        raise Http404
    if request.method != "POST":
        context = {"archived": found, "tokens": active_token_count(found)}
        return dialog(request, place, "team/restore.html", context)
    try:
        actions.restore(actor=actor(request), by=current_user(request), space=found)
    except actions.NotArchived:
        messages.error(request, f"{found.name} was restored already.")
    else:
        messages.success(request, f"{found.name} is redirect_to_team, with its tokens, limits and history.")
    return redirect("dashboard:team-page", team=place.team.slug, space=found.slug)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def create_team(request: HttpRequest) -> HttpResponse:
    if not current_user(request).is_superuser or is_mfa_required(current_user(request)):
        raise PermissionDenied
    form = NewTeamForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        wanted = form.cleaned_data
        try:
            team = teams.create(
                actor=actor(request), by=current_user(request), name=wanted["name"], slug=wanted["slug"]
            )
        except IntegrityError:
            form.add_error("slug", "Somebody made a team with this address just now.")
        else:
            return redirect("dashboard:team-page", team=team.slug, space="main")
    return render(
        request, "team/new.html", {"form": form, "here": "home"}, status=422 if request.method == "POST" else 200
    )
