"""Webhooks, their deliveries, and the attempts of each delivery."""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from locks.models.space import Space


def new_public_id() -> str:
    return str(uuid.uuid4())


class Webhook(models.Model):
    """Deliveries have been created up to the event at `cursor_commit_position` and `cursor_event_id`. The cursor moves
    in the commit that creates them, so the history is the outbox, and changes of locks write nothing here."""

    space = models.ForeignKey(Space, on_delete=models.CASCADE, related_name="webhooks")
    public_id = models.CharField(max_length=36, unique=True, default=new_public_id, editable=False)
    url = models.CharField(max_length=2000)
    # Empty: all of them.
    kinds = ArrayField(models.CharField(max_length=32), default=list, blank=True)
    prefix = models.CharField(max_length=256, blank=True, default="")
    # OctoStore's filter, besides the prefix: a glob for the whole name (see octo_glob_pattern).
    lock_pattern = models.CharField(max_length=256, null=True, blank=True)
    # Encrypted (see locks.events.webhooks.encryption), not hashed: it is needed to sign.
    secret = models.BinaryField(editable=False)
    previous_secret = models.BinaryField(null=True, editable=False)
    previous_secret_until = models.DateTimeField(null=True, editable=False)
    paused_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    created_by = models.TextField(
        editable=False, help_text="Name of the person or token that created it, at that time."
    )
    cursor_commit_position = models.BigIntegerField(editable=False)
    cursor_event_id = models.BigIntegerField(editable=False)
    # See octo_timeline; null until deliveries are created for the first time.
    cursor_timeline = models.BigIntegerField(null=True, editable=False)
    # Failed attempts in a row, and until when no other is made because of them.
    consecutive_failures = models.PositiveIntegerField(default=0, editable=False)
    backoff_until = models.DateTimeField(null=True, editable=False)
    # When a delivery was last claimed: the webhook that has waited longest is next.
    last_claimed_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "octo_webhook"
        ordering = ("created_at", "id")

    def __str__(self) -> str:
        return self.public_id


class DeliveryStatus(models.TextChoices):
    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


class Delivery(models.Model):
    """One event for one webhook, with everything that is sent: the history may be purged before the delivery is."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries", db_index=False)
    public_id = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    # The event, or null for a message of an alert rule, which is about `content`.
    event_id = models.BigIntegerField(null=True)
    kind = models.TextField()
    # Empty for all messages of a rule, so that they are sent in order as the events of one name are. Empty for a
    # `reset`, too: later events of all names wait for it.
    lock_name = models.TextField(null=True, db_collation="C")
    fencing_token = models.BigIntegerField(null=True)
    owner = models.TextField(null=True)
    metadata = models.TextField(null=True)
    reason = models.TextField(null=True)
    content = models.JSONField(null=True)
    observed_at = models.DateTimeField()
    created_at = models.DateTimeField(db_default=Now())
    status = models.TextField(choices=DeliveryStatus, default=DeliveryStatus.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True)
    # The first attempt that fails after this makes it dead.
    deadline_at = models.DateTimeField()
    # A worker is sending it. From then on, another one may.
    claimed_until = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "octo_delivery"
        verbose_name_plural = "deliveries"
        constraints = (
            # Reading an event twice does not create a second delivery.
            models.UniqueConstraint(fields=("webhook", "event_id"), name="delivery_unique_event"),
            models.CheckConstraint(
                condition=Q(status=DeliveryStatus.PENDING, next_attempt_at__isnull=False, finished_at__isnull=True)
                | Q(~Q(status=DeliveryStatus.PENDING), finished_at__isnull=False),
                name="delivery_is_pending_or_finished",
            ),
        )
        indexes = (
            models.Index(
                fields=("webhook", "next_attempt_at", "id"), condition=Q(status="pending"), name="delivery_due"
            ),
            # Finds earlier pending deliveries of the same name.
            models.Index(fields=("webhook", "lock_name", "id"), condition=Q(status="pending"), name="delivery_by_name"),
            models.Index(
                fields=("webhook",), condition=Q(status="pending", claimed_until__isnull=False), name="delivery_claimed"
            ),
            models.Index(fields=("webhook", "-id"), name="delivery_latest"),
            models.Index(fields=("webhook", "-id"), condition=Q(status="dead"), name="delivery_dead"),
            models.Index(fields=("finished_at",), condition=~Q(status="pending"), name="delivery_to_purge"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.lock_name or ''}".strip()


class DeliveryAttempt(models.Model):
    """The status of the response, or why there was none. The body of the response is not kept."""

    delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE, related_name="log")
    number = models.PositiveIntegerField()
    at = models.DateTimeField(db_default=Now())
    duration_ms = models.PositiveIntegerField()
    status = models.PositiveSmallIntegerField(null=True)
    error = models.TextField(null=True)

    class Meta:
        db_table = "octo_delivery_attempt"
        ordering = ("id",)

    def __str__(self) -> str:
        return self.error or str(self.status)
