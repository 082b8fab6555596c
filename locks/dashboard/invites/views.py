"""Invitations: made on the Team page, shown once, redeemed by a link.

The link is `/ui/join#<code>`. What is behind the # never leaves the browser by itself: not in a request line, a log, a
Referer or a proxy. A script takes it off the address and posts it; without scripts people paste it. From then on the
session knows which invitation is meant, and the code is needed no more.
"""

from django.contrib import messages
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from locks.dashboard.access import SpaceContext, actor, admin_required, current_user, request_id, space_required
from locks.dashboard.auth.login_start import login_methods
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import page
from locks.dashboard.team.forms import ROLE_NOTES, InviteForm, NewAccountForm
from locks.dashboard.team.views import redirect_to_team
from locks.models import Invite, User
from locks.services import invites as actions
from locks.services import sign_in as entrance
from locks.services.audit import Actor

_SESSION_KEY = "invite"


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
@sensitive_variables("code")
def create(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    form = InviteForm(request.POST or None)
    if request.method != "POST" or not form.is_valid():
        context = {"form": form, "roles": ROLE_NOTES}
        status = 422 if request.method == "POST" else 200
        return page(request, place, "team/invite_new.html", context, active_page="team", status=status)
    code, invite = actions.create(
        actor=actor(request), by=current_user(request), team=place.team, role=form.cleaned_data["role"],
        lifetime=form.lasts, note=form.cleaned_data["note"],
    )  # fmt: skip
    link = f"{request.scheme}://{request.get_host()}{reverse('dashboard:join')}#{code}"
    return page(request, place, "team/invited.html", {"invite": invite, "link": link}, active_page="team")


@require_POST
@space_required
@admin_required
def revoke(request: HttpRequest, place: SpaceContext, invite_id: int) -> HttpResponse:
    if actions.revoke(actor=actor(request), by=current_user(request), team=place.team, invite_id=invite_id):
        messages.success(request, "The invitation is taken redirect_to_team. Its link does nothing any more.")
    else:
        messages.error(request, "That invitation was used or taken redirect_to_team already.")
    return redirect_to_team(place)


@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def join(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return render(request, "invites/code.html")
    # People paste the code, or the whole link.
    invite = actions.find_open(request.POST.get("code", "").strip().rpartition("#")[2])
    if invite is None:
        return render(request, "invites/code.html", {"failed": True}, status=422)
    request.session[_SESSION_KEY] = invite.pk
    return redirect("dashboard:join-accept")


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def accept(request: HttpRequest) -> HttpResponse:
    invite = actions.open_invites().filter(pk=request.session.get(_SESSION_KEY, 0)).first()
    if invite is None:
        request.session.pop(_SESSION_KEY, None)
        return render(request, "invites/code.html", {"failed": True}, status=409)
    form = NewAccountForm(request.POST if request.method == "POST" and not request.user.is_authenticated else None)
    if request.method == "POST":
        if request.user.is_authenticated:
            return _join(request, invite, current_user(request))
        if form.is_valid():
            return _join_with_new_account(request, invite, form)
    return _form_page(request, invite, form)


def _form_page(request: HttpRequest, invite: Invite, form: NewAccountForm) -> HttpResponse:
    context = {**login_methods(), "invite": invite, "form": form}
    return render(request, "invites/accept.html", context, status=422 if form.is_bound else 200)


def _join(request: HttpRequest, invite: Invite, member: User) -> HttpResponse:
    try:
        actions.accept(actor=actor(request), invite=invite, member=member)
    except actions.AlreadyMember:
        request.session.pop(_SESSION_KEY, None)
        return redirect("dashboard:team", team=invite.team.slug)
    except actions.NotOpen:
        return render(request, "invites/code.html", {"failed": True}, status=409)
    request.session.pop(_SESSION_KEY, None)
    return redirect("dashboard:team", team=invite.team.slug)


def _join_with_new_account(request: HttpRequest, invite: Invite, form: NewAccountForm) -> HttpResponse:
    wanted = form.cleaned_data
    try:
        with transaction.atomic():
            member = User.objects.create_user(wanted["username"], wanted["email"], wanted["password"])
            newcomer = Actor.of_user(member, address=request.META.get("REMOTE_ADDR"), request_id=request_id(request))
            actions.accept(actor=newcomer, invite=invite, member=member, is_new=True)
    except actions.NotOpen:
        return render(request, "invites/code.html", {"failed": True}, status=409)
    except IntegrityError:
        # Somebody took the name or the address in this moment; checked again, the form says which.
        return _form_page(request, invite, NewAccountForm(request.POST))
    request.session.pop(_SESSION_KEY, None)
    entrance.log_in(request=request, user=member, methods=["password"], actor=newcomer)
    return redirect("dashboard:team", team=invite.team.slug)
