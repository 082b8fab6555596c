"""People in the console: all else is only looked at there. Every change is on the record."""

from typing import TYPE_CHECKING, Any

from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from locks.dashboard.access import actor
from locks.dashboard.reauthentication.flow import require_reauthentication
from locks.models import EventKind, User
from locks.services import accounts, invites, members, social_accounts
from locks.services import reauthentication as proof
from locks.services.audit import record

# Django's class is generic to the type checker only.
if TYPE_CHECKING:
    _UserAdmin = UserAdmin[User]
    _UserChangeForm = UserChangeForm[User]
else:
    _UserAdmin = UserAdmin
    _UserChangeForm = UserChangeForm

_RIGHTS = ("is_active", "is_staff", "is_superuser")
# What the history says they became.
_TOLD = ("username", "email", "is_active", "is_staff", "is_superuser")


class PersonForm(_UserChangeForm):
    """Keeps a superuser who can enter the console, and in every team an admin who can sign in. It is checked in the
    transaction that saves it, on locked rows: of two who are to go at once, the second is refused."""

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        lost = [name for name in _RIGHTS if getattr(self.instance, name) and not cleaned.get(name, True)]
        if lost and accounts.is_last_superuser(self.instance):
            self.add_error(lost[0], "Nobody else is a superuser who can enter this console. Make somebody one first.")
        if "is_active" in lost and (teams := members.teams_without_other_admin(self.instance)):
            names = ", ".join(team.name for team in teams)
            self.add_error("is_active", f"Nobody else is an admin of {names} and can sign in. Make somebody one first.")
        return cleaned


class PersonAdmin(_UserAdmin):
    """Whoever has gone is made inactive and stays, so that what they did keeps a face."""

    form = PersonForm

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return False

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        if object_id is None:
            asked = _ask_before_the_password(request)
        else:
            asked = require_reauthentication(request) if request.method == "POST" else None
        return asked or super().changeform_view(request, object_id, form_url, extra_context)

    @transaction.atomic
    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:  # noqa: A002
        if asked := _ask_before_the_password(request):
            return asked
        person = self.get_object(request, id)
        before = person.password if person else None
        response = super().user_change_password(request, id, form_url)
        if person is not None:
            person.refresh_from_db()
            if person.password != before:
                accounts.note_new_password(actor=actor(request), user=person)
        return response

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """An address that a superuser has entered counts as verified, for whoever signs in through a provider."""
        super().save_model(request, obj, form, change)
        changed = form.changed_data
        if "email" in changed:
            social_accounts.mark_email_verified(obj) if obj.email else social_accounts.forget_addresses(obj)
        detail: dict[str, Any] = {"person": obj.get_username()}
        if not change:
            record(EventKind.PERSON_ADDED, actor=actor(request), detail=detail)
        elif changed:
            detail |= {"changed": changed, "to": {name: getattr(obj, name) for name in _TOLD if name in changed}}
            record(EventKind.PROFILE_CHANGED, actor=actor(request), detail=detail)
        if not obj.is_active:
            accounts.end_sessions(obj)
        if change:
            invites.revoke_where_not_admin(actor=actor(request), inviter=obj)


def _ask_before_the_password(request: HttpRequest) -> HttpResponse | None:
    """For forms with a password in them, which must not be carried along: whoever comes too late begins anew."""
    if request.method == "POST" and not proof.is_fresh(request):
        return redirect(request.path)
    return require_reauthentication(request) if request.method == "GET" else None
