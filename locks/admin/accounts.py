"""Users in the admin console, the only model that can be changed there. Every change is recorded."""

from typing import TYPE_CHECKING, Any

from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from locks.admin.lists import ListedLookupsAdmin
from locks.models import EventKind, User
from locks.services import accounts, invites, members, reauthentication, social_accounts
from locks.services.audit import Actor, record

# Django's classes are generic to the type checker only.
if TYPE_CHECKING:
    _UserAdmin = UserAdmin[User]
    _UserChangeForm = UserChangeForm[User]
else:
    _UserAdmin = UserAdmin
    _UserChangeForm = UserChangeForm

_PERMISSIONS = ("is_active", "is_staff", "is_superuser")
# Fields whose new values the audit event contains.
_RECORDED = ("username", "email", *_PERMISSIONS)


class PersonForm(_UserChangeForm):
    """Keeps one superuser who can use the console, and in every team one admin who can sign in. The check runs in the
    transaction that saves, on locked rows, so two users cannot lose their rights at the same time."""

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        lost = [name for name in _PERMISSIONS if getattr(self.instance, name) and not cleaned.get(name, True)]
        if lost and accounts.is_last_superuser(self.instance):
            self.add_error(lost[0], "This is the only superuser who can use this console. Make another one first.")
        if "is_active" in lost and (teams := members.teams_without_other_admin(self.instance)):
            names = ", ".join(team.name for team in teams)
            self.add_error("is_active", f"This is the only admin of {names} who can sign in. Make another one first.")
        return cleaned


class PersonAdmin(ListedLookupsAdmin, _UserAdmin):
    """Former users are made inactive, not deleted, so that the history keeps their names."""

    # The site of the project, which asks for reauthentication with the form of the dashboard.
    admin_site: Any
    form = PersonForm

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return False

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        if object_id is None:
            prompt = self._prompt_before_password_form(request)
        else:
            prompt = self.admin_site.require_reauthentication(request) if request.method == "POST" else None
        return prompt or super().changeform_view(request, object_id, form_url, extra_context)

    @transaction.atomic
    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:  # noqa: A002 -- Django's name
        if prompt := self._prompt_before_password_form(request):
            return prompt
        user = self.get_object(request, id)
        before = user.password if user else None
        response = super().user_change_password(request, id, form_url)
        if user is not None:
            user.refresh_from_db()
            if user.password != before:
                accounts.record_password_set(actor=Actor.of_request(request), user=user)
        return response

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """An address that a superuser enters counts as verified when the user signs in through a provider."""
        super().save_model(request, obj, form, change)
        actor = Actor.of_request(request)
        changed = form.changed_data
        if "email" in changed:
            social_accounts.mark_email_verified(obj)
        detail: dict[str, Any] = {"person": obj.get_username()}
        if not change:
            record(EventKind.PERSON_ADDED, actor=actor, detail=detail)
        elif changed:
            detail |= {"changed": changed, "to": {name: getattr(obj, name) for name in _RECORDED if name in changed}}
            record(EventKind.PROFILE_CHANGED, actor=actor, detail=detail)
        if not obj.is_active:
            accounts.end_sessions(obj)
        if change:
            invites.revoke_where_not_admin(actor=actor, inviter=obj)

    def _prompt_before_password_form(self, request: HttpRequest) -> HttpResponse | None:
        """The prompt must not carry a new password along, so it comes before the form. If the proof has become too old
        by the time the form is posted, the user starts again."""
        if request.method == "POST" and not reauthentication.is_fresh(request):
            return redirect(request.path)
        return self.admin_site.require_reauthentication(request) if request.method == "GET" else None
