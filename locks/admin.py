"""The break-glass console at /admin/: every model, no secret shown, nothing changed that would break an invariant.

People and teams are edited here. Locks, their history and everything the server writes itself can only be looked at: a
change there has to go through the engine, or it would leave no trace.
"""

from typing import TYPE_CHECKING, Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.core.paginator import Paginator
from django.db import models
from django.http import HttpRequest
from django.utils.functional import cached_property

from locks.actions import connections
from locks.models import Event, Heartbeat, Lock, Membership, Session, Space, Team, Token, User, Waiter

# Django's classes are generic to the type checker only.
if TYPE_CHECKING:
    _Admin = admin.ModelAdmin[Any]
    _Inline = admin.TabularInline[Any, Any]
    _Paginator = Paginator[Any]
    _UserAdmin = UserAdmin[User]
else:
    _Admin, _Inline, _Paginator, _UserAdmin = admin.ModelAdmin, admin.TabularInline, Paginator, UserAdmin


class EstimatedPaginator(_Paginator):
    """Does not count what may be millions: says that there is more, as far as people turn pages."""

    MOST = 10_000

    @cached_property
    def count(self) -> int:
        objects: Any = self.object_list
        return int(objects.order_by()[: self.MOST].count())


class ReadOnlyAdmin(_Admin):
    show_full_result_count = False
    paginator = EstimatedPaginator
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False


class MembershipInline(_Inline):
    model = Membership
    extra = 0
    autocomplete_fields = ("user",)


@admin.register(Team)
class TeamAdmin(_Admin):
    list_display = ("name", "slug", "created_at")
    search_fields = ("name", "slug")
    inlines = (MembershipInline,)


@admin.register(Space)
class SpaceAdmin(_Admin):
    list_display = ("name", "slug", "team", "max_ttl_seconds", "archived_at")
    list_select_related = ("team",)
    list_filter = ("archived_at",)
    search_fields = ("name", "slug", "team__name")
    autocomplete_fields = ("team",)

    def has_delete_permission(self, request: HttpRequest, obj: Space | None = None) -> bool:
        return False


@admin.register(User)
class PersonAdmin(_UserAdmin):
    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """An address that a superuser has entered counts as verified, for whoever signs in through a provider."""
        super().save_model(request, obj, form, change)
        if "email" in form.changed_data:
            connections.vouch_for(obj) if obj.email else connections.forget_addresses(obj)


# Keys, seeds and what providers told of people: nothing to look at, and changed on the account page only.
for model in (Authenticator, EmailAddress, SocialAccount, SocialApp, SocialToken):
    if admin.site.is_registered(model):
        admin.site.unregister(model)


@admin.register(Token)
class TokenAdmin(ReadOnlyAdmin):
    """Issued and revoked in the dashboard and the API, which record it."""

    list_display = ("name", "public_id", "space", "scopes", "expires_at", "revoked_at", "last_used_at")
    list_select_related = ("space__team",)
    search_fields = ("name", "public_id__startswith")
    exclude = ("digest",)


@admin.register(Lock)
class LockAdmin(ReadOnlyAdmin):
    list_display = ("name", "space", "owner", "fencing_token", "acquired_at", "expires_at", "available_at")
    list_select_related = ("space__team",)
    search_fields = ("name__startswith",)
    search_help_text = "The beginning of a name"
    ordering = ("space", "name")
    exclude = ("lease_id", "session_id", "idempotency_digest", "request_digest")


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ("at", "kind", "lock_name", "owner", "actor_name", "channel", "reason")
    list_filter = ("kind", "channel")
    search_fields = ("lock_name__exact", "request_id__exact")
    search_help_text = "A lock's whole name, or a request's id"
    ordering = ("-id",)


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    """The id of a session is what its holder proves itself with."""

    list_display = ("owner", "space", "created_at", "kept_alive_at", "expires_at", "ended_at")
    list_select_related = ("space__team",)
    list_display_links = None
    search_fields = ("owner__exact",)
    exclude = ("id",)


@admin.register(Waiter)
class WaiterAdmin(ReadOnlyAdmin):
    list_display = ("name", "owner", "space", "waiting_since", "gives_up_at")
    list_select_related = ("space__team",)
    search_fields = ("name__startswith",)
    exclude = ("session_id",)


@admin.register(Heartbeat)
class HeartbeatAdmin(ReadOnlyAdmin):
    list_display = ("name", "seen_at")
