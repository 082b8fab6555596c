"""The spaces of a team: create one, set its limits, archive and restore it."""

from django.contrib import messages
from django.db import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from locks.dashboard.access import SpaceContext, actor, admin_required, current_user, space_required
from locks.dashboard.dialogs import dialog, refusal
from locks.dashboard.form_rendering import form_status
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import page
from locks.dashboard.spaces.forms import ArchiveForm, LimitsForm, NewSpaceForm
from locks.dashboard.tokens.queries import unexpired_tokens
from locks.models import Space, SpaceUsage
from locks.services import spaces as service
from locks.services.force_release import live_leases


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
def create(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    team = space_context.team
    form = NewSpaceForm(request.POST or None, team=team)
    if form.is_valid():
        try:
            space = service.create(
                actor=actor(request), by=current_user(request), team=team, space=form.save(commit=False)
            )
        except IntegrityError:
            form.add_error("slug", "A space with this address was created a moment ago.")
        else:
            messages.success(request, f"Space {space.name} created. Issue a token for it next.")
            return redirect("dashboard:team-page", team=team.slug, space=space.slug)
    return page(request, space_context, "spaces/new.html", {"form": form}, active_page="team", status=form_status(form))


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
def limits(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    space = space_context.space
    # A second instance: validation writes to it, and the page around the form shows the stored values.
    form = LimitsForm(request.POST or None, instance=Space.objects.get(pk=space.pk))
    if form.is_valid():
        if service.change(actor=actor(request), by=current_user(request), space=space, changes=form.changes):
            messages.success(request, f"New limits of {form.instance.name} saved. They apply from the next request.")
        return redirect(space_context.url("team-page"))
    usage = SpaceUsage.objects.filter(pk=space.pk).first()
    context = {"form": form, "held": live_leases(space=space).count(), "usage": usage}
    return page(request, space_context, "spaces/limits.html", context, active_page="team", status=form_status(form))


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
def archive(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    space = space_context.space
    form = ArchiveForm(request.POST or None, slug=space.slug)
    status, released = form_status(form), 0
    if form.is_valid():
        try:
            released = service.archive(
                actor=actor(request), by=current_user(request), space=space, release=form.cleaned_data["release"]
            )
        except service.LocksAreHeld as held:
            locks = "1 lock is" if held.number == 1 else f"{held.number} locks are"
            form.add_error("release", f"Nothing was archived: {locks} held. Select this, or wait until all are free.")
            status = 409
        except service.LastSpace:
            text = f"{space.name} is the last space of {space.team.name}. Create another one first."
            return refusal(
                request, space_context, text,
                title="Nothing was archived", back_url=space_context.url("limits"), active_page="team",
            )  # fmt: skip
        except service.AlreadyArchived:
            pass
    if not form.is_valid():
        context = {"form": form, "held": live_leases(space=space).count()}
        return dialog(
            request, space_context, "spaces/archive.html", context,
            title=f"Archive {space.team.name} / {space.name}", back_url=space_context.url("limits"),
            active_page="team", status=status,
        )  # fmt: skip
    released_text = f" {released} leases released." if released else ""
    messages.success(request, f"Space {space.name} archived.{released_text}")
    return redirect("dashboard:team", team=space.team.slug)


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
def restore(request: HttpRequest, space_context: SpaceContext, archived: str) -> HttpResponse:
    """On the pages of another space of the team, because an archived space has none."""
    space = Space.objects.select_related("team").filter(team=space_context.team, slug=archived).first()
    if space is None:
        raise Http404
    if request.method != "POST":
        back_url = space_context.url("team-page")
        if space.archived_at is None:
            return refusal(
                request, space_context, f"{space.name} was restored already.",
                title="Nothing was restored", back_url=back_url, active_page="team", status=200,
            )  # fmt: skip
        context = {"space": space, "token_count": unexpired_tokens().filter(space=space).count()}
        return dialog(
            request, space_context, "spaces/restore.html", context,
            title=f"Restore {space.team.name} / {space.name}", back_url=back_url, active_page="team",
        )  # fmt: skip
    try:
        service.restore(actor=actor(request), by=current_user(request), space=space)
    except service.NotArchived:
        messages.error(request, f"{space.name} was restored already.")
    else:
        messages.success(request, f"Space {space.name} restored, with its tokens, limits and history.")
    return redirect("dashboard:team-page", team=space.team.slug, space=space.slug)
