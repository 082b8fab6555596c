"""Invitations: created on the Team page, shown once, accepted through a link.

The link is `/ui/join#<code>`. Browsers do not send the fragment, so the code appears in no request line, log, Referer
or proxy. A script takes it off the address and posts it; without JavaScript people paste it. From then on the session
holds the id of the invitation and the code is no longer needed.
"""

from django.contrib import messages
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from locks.dashboard.access import SpaceContext, actor, actor_of, admin_required, current_user, space_required
from locks.dashboard.auth.login import login_methods
from locks.dashboard.form_rendering import form_status
from locks.dashboard.invites.forms import InviteForm, JoinForm, NewAccountForm
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import page
from locks.dashboard.team.roles import ROLE_DESCRIPTIONS
from locks.models import Invite, Role, User
from locks.services import invites as service
from locks.services import sign_in

_SESSION_KEY = "invite"


@require_http_methods(["GET", "HEAD", "POST"])
@space_required
@admin_required
@recently_confirmed
@sensitive_variables("code")
def create(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    form = InviteForm(request.POST or None)
    if not form.is_valid():
        context = {"form": form}
        return page(request, space_context, "invites/new.html", context, active_page="team", status=form_status(form))
    code, invite = service.create(
        actor=actor(request), by=current_user(request), team=space_context.team, role=form.cleaned_data["role"],
        lifetime=form.validity, note=form.cleaned_data["note"],
    )  # fmt: skip
    link = f"{request.scheme}://{request.get_host()}{reverse('dashboard:join')}#{code}"
    return page(request, space_context, "invites/created.html", {"invite": invite, "link": link}, active_page="team")


@require_POST
@space_required
@admin_required
def revoke(request: HttpRequest, space_context: SpaceContext, invite_id: int) -> HttpResponse:
    if service.revoke(actor=actor(request), by=current_user(request), team=space_context.team, invite_id=invite_id):
        messages.success(request, "Invitation revoked. Its link no longer works.")
    else:
        messages.error(request, "That invitation was used or revoked already.")
    return redirect(space_context.url("team-page"))


@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def join(request: HttpRequest) -> HttpResponse:
    form = JoinForm(request.POST if request.method == "POST" else None)
    if not form.is_bound:
        return render(request, "invites/join.html", {"form": form})
    invite = service.find_open(form.cleaned_data["code"]) if form.is_valid() else None
    if invite is None:
        return _closed(request, status=422)
    request.session[_SESSION_KEY] = invite.pk
    return redirect("dashboard:join-accept")


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def accept(request: HttpRequest) -> HttpResponse:
    invite = service.open_invites().filter(pk=request.session.get(_SESSION_KEY, 0)).first()
    if invite is None:
        request.session.pop(_SESSION_KEY, None)
        return _closed(request)
    is_signed_in = request.user.is_authenticated
    if request.method == "POST" and is_signed_in:
        return _join(request, invite, current_user(request))
    form = NewAccountForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        return _join_with_new_account(request, invite, form)
    return _form_page(request, invite, form)


def _form_page(request: HttpRequest, invite: Invite, form: NewAccountForm) -> HttpResponse:
    description = ROLE_DESCRIPTIONS[Role(invite.role)]
    context = {**login_methods(), "invite": invite, "role_description": description, "form": form}
    return render(request, "invites/accept.html", context, status=form_status(form))


def _join(request: HttpRequest, invite: Invite, member: User) -> HttpResponse:
    try:
        service.accept(actor=actor(request), invite=invite, member=member)
    except service.AlreadyMember:
        pass
    except service.NotOpen:
        return _closed(request)
    request.session.pop(_SESSION_KEY, None)
    return redirect("dashboard:team", team=invite.team.slug)


def _join_with_new_account(request: HttpRequest, invite: Invite, form: NewAccountForm) -> HttpResponse:
    account = form.cleaned_data
    try:
        with transaction.atomic():
            member = User.objects.create_user(account["username"], account["email"], account["password"])
            new_actor = actor_of(request, member)
            service.accept(actor=new_actor, invite=invite, member=member, is_new=True)
    except service.NotOpen:
        return _closed(request)
    except IntegrityError:
        # The name or the address was taken at the same moment; validated again, the form says which.
        return _form_page(request, invite, NewAccountForm(request.POST))
    request.session.pop(_SESSION_KEY, None)
    sign_in.log_in(request=request, user=member, methods=["password"], actor=new_actor)
    return redirect("dashboard:team", team=invite.team.slug)


def _closed(request: HttpRequest, *, status: int = 409) -> HttpResponse:
    """One answer for an unknown, a used, a revoked and an expired invitation."""
    return render(request, "invites/join.html", {"form": JoinForm(), "failed": True}, status=status)
