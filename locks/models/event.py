"""The audit history: append-only, in monthly partitions, with names as they were at the time.

No foreign keys: an event outlives the rows it refers to, and writing one must not lock another row. The database
refuses to change or delete events (see the migration); retention drops whole partitions.
"""

from django.db import models
from django.db.models.functions import Now


class EventKind(models.TextChoices):
    ACQUIRED = "acquired"
    RELEASED = "released"
    EXPIRED = "expired"
    FORCE_RELEASED = "force_released"
    EXTENDED = "extended"
    ACL_CHANGED = "acl_changed"
    SESSION_OPENED = "session_opened"
    SESSION_ENDED = "session_ended"
    SESSION_EXPIRED = "session_expired"
    TOKEN_ISSUED = "token_issued"
    TOKEN_ROTATED = "token_rotated"
    TOKEN_REVOKED = "token_revoked"
    WEBHOOK_CREATED = "webhook_created"
    WEBHOOK_CHANGED = "webhook_changed"
    WEBHOOK_PAUSED = "webhook_paused"
    WEBHOOK_RESUMED = "webhook_resumed"
    WEBHOOK_SECRET_ROTATED = "webhook_secret_rotated"
    WEBHOOK_TESTED = "webhook_tested"
    WEBHOOK_REPLAYED = "webhook_replayed"
    WEBHOOK_DELETED = "webhook_deleted"
    HISTORY_EXPORTED = "history_exported"
    LIST_EXPORTED = "list_exported"
    SIGNED_IN = "signed_in"
    SIGNED_OUT = "signed_out"
    SIGN_IN_FAILED = "sign_in_failed"
    SIGN_IN_SLOWED = "sign_in_slowed"
    CONFIRMED = "confirmed"
    CONFIRMATION_FAILED = "confirmation_failed"
    TEAM_CREATED = "team_created"
    TEAM_RENAMED = "team_renamed"
    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    MEMBER_REMOVED = "member_removed"
    ROLE_CHANGED = "role_changed"
    SPACE_ROLE_CHANGED = "space_role_changed"
    INVITE_CREATED = "invite_created"
    INVITE_REVOKED = "invite_revoked"
    SPACE_CREATED = "space_created"
    SPACE_CHANGED = "space_changed"
    SPACE_ARCHIVED = "space_archived"
    SPACE_RESTORED = "space_restored"
    PROFILE_CHANGED = "profile_changed"
    PASSWORD_CHANGED = "password_changed"
    SESSIONS_REVOKED = "sessions_revoked"
    SECOND_FACTOR_ADDED = "second_factor_added"
    SECOND_FACTOR_REMOVED = "second_factor_removed"
    RECOVERY_CODES_MADE = "recovery_codes_made"
    ACCOUNT_CONNECTED = "account_connected"
    ACCOUNT_DISCONNECTED = "account_disconnected"
    PERSON_ADDED = "person_added"
    FILTER_SAVED = "filter_saved"
    FILTER_DELETED = "filter_deleted"
    BULK_RELEASE_STARTED = "bulk_release_started"
    BULK_RELEASE_STOPPED = "bulk_release_stopped"
    BULK_RELEASE_FINISHED = "bulk_release_finished"
    RUN_STARTED = "run_started"
    RUN_DRAINED = "run_drained"
    RUN_FINISHED = "run_finished"
    RUN_EXPORTED = "run_exported"
    LAYER_CREATED = "layer_created"
    ACTOR_JOINED = "actor_joined"
    ACTOR_ENDED = "actor_ended"
    FROZEN = "frozen"
    UNFROZEN = "unfrozen"
    SNOOZED = "snoozed"
    SNOOZE_ENDED = "snooze_ended"
    NOTE_CHANGED = "note_changed"
    RELEASE_REQUESTED = "release_requested"
    STUCK = "stuck"
    STUCK_CLEARED = "stuck_cleared"
    TOKEN_EXPIRING = "token_expiring"
    SYSTEM_UNHEALTHY = "system_unhealthy"
    SYSTEM_RECOVERED = "system_recovered"
    ALERT_RULE_CREATED = "alert_rule_created"
    ALERT_RULE_CHANGED = "alert_rule_changed"
    ALERT_RULE_PAUSED = "alert_rule_paused"
    ALERT_RULE_RESUMED = "alert_rule_resumed"
    ALERT_RULE_SECRET_ROTATED = "alert_rule_secret_rotated"
    ALERT_RULE_TESTED = "alert_rule_tested"
    ALERT_RULE_REPLAYED = "alert_rule_replayed"
    ALERT_RULE_DELETED = "alert_rule_deleted"


# Events about the account of a person have neither team nor space, those about a team have no space.
ACCOUNT_KINDS = (
    EventKind.SIGNED_IN,
    EventKind.SIGNED_OUT,
    EventKind.SIGN_IN_FAILED,
    EventKind.SIGN_IN_SLOWED,
    EventKind.CONFIRMED,
    EventKind.CONFIRMATION_FAILED,
    EventKind.PROFILE_CHANGED,
    EventKind.PASSWORD_CHANGED,
    EventKind.SESSIONS_REVOKED,
    EventKind.SECOND_FACTOR_ADDED,
    EventKind.SECOND_FACTOR_REMOVED,
    EventKind.RECOVERY_CODES_MADE,
    EventKind.ACCOUNT_CONNECTED,
    EventKind.ACCOUNT_DISCONNECTED,
    EventKind.PERSON_ADDED,
    EventKind.FILTER_SAVED,
    EventKind.FILTER_DELETED,
)
TEAM_KINDS = (
    EventKind.TEAM_CREATED,
    EventKind.TEAM_RENAMED,
    EventKind.MEMBER_JOINED,
    EventKind.MEMBER_LEFT,
    EventKind.MEMBER_REMOVED,
    EventKind.ROLE_CHANGED,
    EventKind.INVITE_CREATED,
    EventKind.INVITE_REVOKED,
)
# Of the installation: without team and space.
SYSTEM_KINDS = (EventKind.SYSTEM_UNHEALTHY, EventKind.SYSTEM_RECOVERED)
# What locks.services.alerts finds. A webhook gets them only if it names them.
TROUBLE_KINDS = (EventKind.STUCK, EventKind.STUCK_CLEARED, EventKind.TOKEN_EXPIRING, *SYSTEM_KINDS)


class ActorKind(models.TextChoices):
    TOKEN = "token"
    USER = "user"
    SYSTEM = "system"


class Channel(models.TextChoices):
    API = "api"
    WEB = "web"
    CLI = "cli"
    TASK = "task"


class Event(models.Model):
    # In the database the key is (id, at): the key of a partitioned table must contain the partition column.
    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    # One of EventKind; without `choices`, so that a new kind needs no migration.
    kind = models.TextField()
    team_id = models.BigIntegerField(null=True)
    space_id = models.BigIntegerField(null=True)
    lock_name = models.TextField(null=True, db_collation="C")
    fencing_token = models.BigIntegerField(null=True)
    owner = models.TextField(null=True)
    holder_id = models.TextField(null=True)
    metadata = models.TextField(null=True)
    # The token concerned: the holder's, or the one that was issued or revoked.
    token_id = models.BigIntegerField(null=True)
    actor_kind = models.TextField(choices=ActorKind)
    actor_id = models.BigIntegerField(null=True)
    actor_name = models.TextField()
    channel = models.TextField(choices=Channel)
    address = models.GenericIPAddressField(null=True)
    request_id = models.TextField(null=True)
    reason = models.TextField(null=True)
    # How long the lease was held, and how long past its expiry this was recorded.
    held_ms = models.BigIntegerField(null=True)
    recorded_late_ms = models.BigIntegerField(null=True)
    detail = models.JSONField(null=True)

    class Meta:
        db_table = "octo_event"
        ordering = ("-at", "-id")

    def __str__(self) -> str:
        return f"{self.kind} {self.lock_name or ''}".strip()
