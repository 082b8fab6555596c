"""Webhooks, what is to be delivered to them, and each attempt to."""

import secrets
import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from locks.models.space import Space


def new_public_id() -> str:
    return f"wh_{secrets.token_hex(8)}"


class Webhook(models.Model):
    """`cursor_commit_position` and `cursor_event_id` are how far the history has become deliveries: both change in one commit, so the history
    itself is the outbox, and nothing is written for a webhook when something happens to a lock."""

    space = models.ForeignKey(Space, on_delete=models.CASCADE, related_name="webhooks")
    public_id = models.CharField(max_length=19, unique=True, default=new_public_id, editable=False)
    url = models.CharField(max_length=2000)
    # Empty: all of them.
    kinds = ArrayField(models.CharField(max_length=32), default=list, blank=True)
    prefix = models.CharField(max_length=256, blank=True, default="")
    # Encrypted (see locks.events.webhooks.encryption): it has to sign, so a digest would not do.
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
    # Attempts in a row that failed, and until when it is left alone because of them.
    consecutive_failures = models.PositiveIntegerField(default=0, editable=False)
    backoff_until = models.DateTimeField(null=True, editable=False)
    # When a delivery was last taken in hand: whoever has waited longest is next.
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
    """One event for one webhook, with all that is sent of it: the history may be gone before a dead letter is."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries", db_index=False)
    public_id = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    event_id = models.BigIntegerField()
    kind = models.TextField()
    lock_name = models.TextField(null=True, db_collation="C")
    fencing_token = models.BigIntegerField(null=True)
    owner = models.TextField(null=True)
    metadata = models.TextField(null=True)
    reason = models.TextField(null=True)
    observed_at = models.DateTimeField()
    created_at = models.DateTimeField(db_default=Now())
    status = models.TextField(choices=DeliveryStatus, default=DeliveryStatus.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True)
    # Given up with the first attempt that fails after this.
    deadline_at = models.DateTimeField()
    # Somebody is delivering it. If they died, somebody else may from then on.
    claimed_until = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "octo_delivery"
        verbose_name_plural = "deliveries"
        constraints = (
            # Whoever reads the history twice writes nothing twice.
            models.UniqueConstraint(fields=("webhook", "event_id"), name="delivery_of_an_event_is_one"),
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
            # Whether an earlier one of the same name is still on its way.
            models.Index(fields=("webhook", "lock_name", "id"), condition=Q(status="pending"), name="delivery_in_line"),
            models.Index(fields=("webhook", "-id"), name="delivery_latest"),
            models.Index(fields=("webhook", "-id"), condition=Q(status="dead"), name="delivery_dead"),
            models.Index(fields=("finished_at",), condition=~Q(status="pending"), name="delivery_to_forget"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.lock_name or ''}".strip()


class DeliveryAttempt(models.Model):
    """What came of it: a status, or why there was none. What the receiver wrote is not kept."""

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
