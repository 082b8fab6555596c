"""The admin console at /admin/ shows every model, but no secrets.

Users are edited here. Everything else is read-only: changes go through the engine or the dashboard, where superusers
have the rights of admins, so that each one is recorded.
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
from locks.admin.force_release import force_release_action
from locks.admin.lists import EventKindFilter, LockStateFilter, PrefixSearchAdmin, ReadOnlyAdmin, in_any_space
from locks.models import (
    Alert,
    AlertRule,
    BrowserSession,
    BulkRelease,
    BulkReleaseItem,
    Delivery,
    Event,
    Freeze,
    Heartbeat,
    HoldBaseline,
    Invite,
    Layer,
    Lock,
    Membership,
    Note,
    ReleaseRequest,
    Run,
    RunActor,
    SavedFilter,
    Server,
    Session,
    Snooze,
    Space,
    SpaceRole,
    TaskRun,
    Team,
    Token,
    TokenClient,
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
    """Neither the key, which is a digest of the cookie, nor the contents are shown."""

    list_display = ("user", "address", "user_agent", "signed_in_at", "seen_at", "expire_date")
    list_select_related = ("user",)
    list_display_links = None
    exclude = ("session_key", "session_data")
    ordering = ("-seen_at",)


# Credentials and data of providers are changed on the account page only. Groups are not used.
for model in (Authenticator, EmailAddress, Group, SocialAccount, SocialApp, SocialToken):
    if admin.site.is_registered(model):
        admin.site.unregister(model)


@admin.register(Token)
class TokenAdmin(ReadOnlyAdmin):
    """Tokens are issued and revoked in the dashboard and the API."""

    list_display = ("name", "public_id", "space", "scopes", "expires_at", "revoked_at", "last_used_at")
    list_select_related = ("space__team",)
    search_fields = ("name", "public_id__startswith")
    exclude = ("digest", "actor_session_id")


@admin.register(Lock)
class LockAdmin(PrefixSearchAdmin):
    """Read-only apart from force-release, which goes through the engine."""

    actions = (force_release_action,)
    list_filter = (LockStateFilter, "space")
    list_display = ("name", "space", "owner", "fencing_token", "acquired_at", "expires_at", "available_at")
    list_select_related = ("space__team",)
    # In the order of the index. Ordering by the name of the space would sort all locks.
    ordering = ("space_id", "name")
    exclude = ("lease_id", "session_id", "bound_session_id", "idempotency_digest", "request_digest")

    def has_force_permission(self, request: HttpRequest) -> bool:
        return request.user.is_superuser


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ("at", "kind", "lock_name", "owner", "actor_name", "channel", "reason")
    list_filter = (EventKindFilter,)
    search_fields = ("lock_name",)
    search_help_text = "The full name of a lock, or a request id"
    ordering = ("-id",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Event], search_term: str
    ) -> tuple[QuerySet[Event], bool]:
        term = search_term.replace("\0", "")
        if not term:
            return queryset, False
        condition = Q(request_id=term) if term.startswith("req_") else in_any_space() & Q(lock_name=term)
        return queryset.filter(condition), False


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    """The id of a session is a secret of its holder."""

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


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """Drained and finished in the dashboard."""

    list_display = ("name", "space", "state", "created_at", "finished_at", "finish_reason")
    list_select_related = ("space__team",)
    list_filter = ("state", "space")
    ordering = ("-created_at",)


@admin.register(Layer)
class LayerAdmin(ReadOnlyAdmin):
    list_display = ("name", "run", "depth", "read_down", "kv_keys", "kv_bytes")
    list_select_related = ("run",)


@admin.register(RunActor)
class RunActorAdmin(ReadOnlyAdmin):
    """The id of its session is a secret of the actor."""

    list_display = ("name", "run", "layer", "role", "token", "created_at", "ended_at", "end_reason")
    list_select_related = ("run", "layer", "token")
    exclude = ("session_id",)
    ordering = ("-id",)


@admin.register(Heartbeat)
class HeartbeatAdmin(ReadOnlyAdmin):
    list_display = ("name", "seen_at")


@admin.register(Server)
class ServerAdmin(ReadOnlyAdmin):
    list_display = ("name", "processes", "seen_at")


@admin.register(TaskRun)
class TaskRunAdmin(ReadOnlyAdmin):
    list_display = ("name", "finished_at", "duration_ms", "queued_ms", "failed", "outcome")


@admin.register(BulkRelease)
class BulkReleaseAdmin(ReadOnlyAdmin):
    """Prepared, confirmed and stopped in the dashboard."""

    list_display = ("id", "space", "state", "total", "selection_label", "requested_by_name", "reason", "ended_at")
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


@admin.register(Freeze)
class FreezeAdmin(ReadOnlyAdmin):
    list_display = ("id", "prefix", "space", "reason", "until", "actor_name", "ended_at")
    list_select_related = ("space__team",)
    ordering = ("-id",)


@admin.register(Note)
class NoteAdmin(ReadOnlyAdmin):
    list_display = ("name", "is_prefix", "space", "person_name", "updated_at", "runbook_url")
    list_select_related = ("space__team",)
    ordering = ("-id",)


@admin.register(ReleaseRequest)
class ReleaseRequestAdmin(ReadOnlyAdmin):
    list_display = ("lock_name", "space", "fencing_token", "person_name", "requested_at", "reason")
    list_select_related = ("space__team",)
    ordering = ("-id",)


@admin.register(SavedFilter)
class SavedFilterAdmin(ReadOnlyAdmin):
    list_display = ("name", "user", "space", "page", "query")
    list_select_related = ("user", "space__team")
    ordering = ("-id",)


@admin.register(SpaceRole)
class SpaceRoleAdmin(ReadOnlyAdmin):
    list_display = ("membership", "space", "role")
    list_select_related = ("membership__user", "membership__team", "space__team")
    ordering = ("-id",)


@admin.register(TokenClient)
class TokenClientAdmin(ReadOnlyAdmin):
    list_display = ("token", "address", "user_agent", "last_used_at")
    list_select_related = ("token",)
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


@admin.register(AlertRule)
class AlertRuleAdmin(ReadOnlyAdmin):
    list_display = (
        "name",
        "webhook",
        "transport",
        "min_minutes",
        "token_days",
        "quiet_from",
        "quiet_until",
        "quiet_zone",
    )
    list_select_related = ("webhook",)


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    list_display = ("kind", "subject", "space", "opened_at", "absent_since", "closed_at")
    list_select_related = ("space__team",)
    list_filter = ("kind",)
    ordering = ("-id",)


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    list_display = ("public_id", "webhook", "kind", "lock_name", "status", "attempts", "created_at", "finished_at")
    list_select_related = ("webhook",)
    list_filter = ("status",)
    search_fields = ("public_id__exact", "lock_name__exact")
    ordering = ("-id",)
