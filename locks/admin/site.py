"""The break-glass console at /admin/: every model, no secret shown, nothing changed that would break an invariant.

People are edited here. Everything else can only be looked at: a change there has to go through the engine or the
dashboard, where superusers may do all that admins may, or it would leave no trace.
"""

from typing import TYPE_CHECKING, Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from locks.admin.accounts import PersonAdmin
from locks.admin.force_release import release_by_force
from locks.admin.lists import EventKindFilter, LockStateFilter, PrefixSearchAdmin, ReadOnlyAdmin, in_every_space
from locks.models import (
    BrowserSession,
    BulkRelease,
    BulkReleaseItem,
    Delivery,
    Event,
    Heartbeat,
    HoldBaseline,
    Invite,
    Lock,
    Membership,
    Session,
    Snooze,
    Space,
    TaskRun,
    Team,
    Token,
    User,
    Waiter,
    Webhook,
)

# Django's class is generic to the type checker only.
if TYPE_CHECKING:
    _Inline = admin.TabularInline[Any, Any]
else:
    _Inline = admin.TabularInline


admin.site.register(User, PersonAdmin)


class MembershipInline(_Inline):
    model = Membership
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Team | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Team | None = None) -> bool:
        return False


@admin.register(Team)
class TeamAdmin(ReadOnlyAdmin):
    list_display = ("name", "slug", "created_at")
    search_fields = ("name", "slug")
    inlines = (MembershipInline,)


@admin.register(Space)
class SpaceAdmin(ReadOnlyAdmin):
    list_display = ("name", "slug", "team", "max_ttl_seconds", "archived_at")
    list_select_related = ("team",)
    list_filter = ("archived_at",)
    search_fields = ("name", "slug", "team__name")


@admin.register(Invite)
class InviteAdmin(ReadOnlyAdmin):
    list_display = ("team", "role", "note", "created_by", "created_at", "expires_at", "accepted_by", "revoked_at")
    list_select_related = ("team", "created_by", "accepted_by")
    exclude = ("digest",)
    ordering = ("-id",)


@admin.register(BrowserSession)
class BrowserSessionAdmin(ReadOnlyAdmin):
    """Its key is a digest, but of something that opens the door; and what is in it is nobody's business."""

    list_display = ("user", "address", "user_agent", "signed_in_at", "seen_at", "expire_date")
    list_select_related = ("user",)
    list_display_links = None
    exclude = ("session_key", "session_data")
    ordering = ("-seen_at",)


# Keys, seeds and what providers told of people: nothing to look at, and changed on the account page only. Groups mean
# nothing here.
for model in (Authenticator, EmailAddress, Group, SocialAccount, SocialApp, SocialToken):
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
class LockAdmin(PrefixSearchAdmin):
    """Only looked at, but for taking one by force, which the engine does and records."""

    actions = (release_by_force,)
    list_filter = (LockStateFilter, "space")
    list_display = ("name", "space", "owner", "fencing_token", "acquired_at", "expires_at", "available_at")
    list_select_related = ("space__team",)
    # By the id of the space, as the index is: by its name, all locks would have to be sorted.
    ordering = ("space_id", "name")
    exclude = ("lease_id", "session_id", "bound_session_id", "idempotency_digest", "request_digest")

    def has_force_permission(self, request: HttpRequest) -> bool:
        return request.user.is_superuser


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ("at", "kind", "lock_name", "owner", "actor_name", "channel", "reason")
    list_filter = (EventKindFilter,)
    search_fields = ("lock_name",)
    search_help_text = "A lock's whole name, or a request's id"
    ordering = ("-id",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Event], search_term: str
    ) -> tuple[QuerySet[Event], bool]:
        term = search_term.replace("\0", "")
        if not term:
            return queryset, False
        named = Q(request_id=term) if term.startswith("req_") else in_every_space() & Q(lock_name=term)
        return queryset.filter(named), False


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    """The id of a session is what its holder proves itself with."""

    list_display = ("owner", "space", "created_at", "last_keepalive_at", "expires_at", "ended_at")
    list_select_related = ("space__team",)
    list_display_links = None
    list_filter = ("space",)
    exclude = ("id",)


@admin.register(Waiter)
class WaiterAdmin(PrefixSearchAdmin):
    list_display = ("name", "owner", "space", "enqueued_at", "deadline_at")
    list_select_related = ("space__team",)
    exclude = ("lease_id", "session_id", "bound_session_id", "idempotency_digest", "request_digest")


@admin.register(Heartbeat)
class HeartbeatAdmin(ReadOnlyAdmin):
    list_display = ("name", "seen_at")


@admin.register(TaskRun)
class TaskRunAdmin(ReadOnlyAdmin):
    list_display = ("name", "finished_at", "duration_ms", "queued_ms", "failed", "outcome")


@admin.register(BulkRelease)
class BulkReleaseAdmin(ReadOnlyAdmin):
    """Prepared, confirmed and stopped in the dashboard, which records it."""

    list_display = (
        "id",
        "space",
        "state",
        "total",
        "selection_label",
        "requested_by_name",
        "reason",
        "confirmed_at",
        "ended_at",
    )
    list_select_related = ("space__team",)
    list_filter = ("space",)
    ordering = ("-id",)


@admin.register(BulkReleaseItem)
class BulkReleaseItemAdmin(ReadOnlyAdmin):
    list_display = ("batch_id", "position", "lock_name", "fencing_token", "owner", "outcome", "event_id")
    ordering = ("-id",)


@admin.register(Snooze)
class SnoozeAdmin(ReadOnlyAdmin):
    list_display = ("lock_name", "space", "fencing_token", "until", "person_name", "note")
    list_select_related = ("space__team",)
    ordering = ("-id",)


@admin.register(HoldBaseline)
class HoldBaselineAdmin(ReadOnlyAdmin):
    list_display = ("lock_id", "fencing_token", "sample_size", "median_ms", "p90_ms", "anomalous_after")
    ordering = ("-lock_id",)


@admin.register(Webhook)
class WebhookAdmin(ReadOnlyAdmin):
    list_display = ("public_id", "space", "url", "prefix", "paused_at", "consecutive_failures", "created_by")
    list_select_related = ("space__team",)
    search_fields = ("public_id__exact", "url__contains")
    exclude = ("secret", "previous_secret")


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    list_display = ("public_id", "webhook", "kind", "lock_name", "status", "attempts", "created_at", "finished_at")
    list_select_related = ("webhook",)
    list_filter = ("status",)
    search_fields = ("public_id__exact", "lock_name__exact")
    ordering = ("-id",)
