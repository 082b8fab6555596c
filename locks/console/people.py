"""People in the console: all else is only looked at there. Every change is on the record."""

from typing import TYPE_CHECKING, Any

from django.contrib.auth.admin import UserAdmin
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from locks.actions import connections, people
from locks.actions.audit import record
from locks.dashboard.access import actor
from locks.dashboard.confirmation import ask_first
from locks.models import EventKind, User

# Django's class is generic to the type checker only.
if TYPE_CHECKING:
    _UserAdmin = UserAdmin[User]
else:
    _UserAdmin = UserAdmin


class PersonAdmin(_UserAdmin):
    """Whoever has gone is made inactive and stays, so that what they did keeps a face."""

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return False

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        # Rights are given here. The form of a new person gives none, and would carry a password along.
        if object_id is not None and request.method == "POST" and (asked := ask_first(request)):
            return asked
        return super().changeform_view(request, object_id, form_url, extra_context)

    @transaction.atomic
    def user_change_password(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return super().user_change_password(request, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """An address that a superuser has entered counts as verified, for whoever signs in through a provider."""
        super().save_model(request, obj, form, change)
        if "email" in form.changed_data:
            connections.vouch_for(obj) if obj.email else connections.forget_addresses(obj)

    def log_addition(self, request: HttpRequest, obj: User, message: Any) -> Any:
        record(EventKind.PERSON_ADDED, actor=actor(request), detail={"person": obj.get_username()})
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: User, message: Any) -> Any:
        changed = [field for part in message for field in part.get("changed", {}).get("fields", ())]
        if "password" in changed:
            people.note_new_password(actor=actor(request), user=obj)
        elif changed:
            detail = {"person": obj.get_username(), "changed": changed}
            record(EventKind.PROFILE_CHANGED, actor=actor(request), detail=detail)
        return super().log_change(request, obj, message)
