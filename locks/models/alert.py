"""Alert rules, the alerts that are open, and the notices that each rule has sent."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from locks.models.space import Space
from locks.models.webhook import Webhook


class Transport(models.TextChoices):
    WEBHOOK = "webhook"
    SLACK = "slack"
    TEAMS = "teams"
    EMAIL = "email"


class AlertRule(models.Model):
    """Its receiver is a webhook of its own: rules and webhooks share kinds, prefix, deliveries, retries and pause.

    The URL of Slack and Teams is a secret: the webhook has it encrypted in `secret`, and masked in `url`. For e-mail,
    `url` is the addresses, separated by commas."""

    webhook = models.OneToOneField(Webhook, on_delete=models.CASCADE, primary_key=True, related_name="alert_rule")
    name = models.CharField(max_length=80)
    transport = models.TextField(choices=Transport)
    # How long a lock must be stuck, or the system unhealthy.
    min_minutes = models.PositiveSmallIntegerField(default=5)
    # How long before a token expires.
    token_days = models.PositiveSmallIntegerField(default=7)
    # Only locks that are stuck for one of these reasons. Empty: for any.
    reasons = ArrayField(models.TextField(), default=list, blank=True)
    # Quiet hours, in the time zone, on days of the week on which they begin (Monday is 1; none: every day).
    quiet_from = models.TimeField(null=True, blank=True)
    quiet_until = models.TimeField(null=True, blank=True)
    quiet_zone = models.TextField(default="UTC")
    quiet_days = ArrayField(models.PositiveSmallIntegerField(), default=list, blank=True)

    class Meta:
        db_table = "octo_alert_rule"
        constraints = (
            models.CheckConstraint(
                condition=Q(quiet_from__isnull=True, quiet_until__isnull=True)
                | Q(quiet_from__isnull=False, quiet_until__isnull=False),
                name="alert_rule_quiet_hours_have_both_ends",
            ),
        )

    def __str__(self) -> str:
        return self.name


class Alert(models.Model):
    """One occurrence of trouble, from its beginning to its end: a stuck lock, a token that expires soon, an unhealthy
    part of the system. A lock's name, a token's public id and the key of a check are the subjects."""

    # Without one: the whole installation.
    space = models.ForeignKey(Space, on_delete=models.CASCADE, null=True, related_name="alerts", db_index=False)
    kind = models.TextField()
    subject = models.TextField(db_collation="C")
    # Of a stuck lock: as it was when it was last found stuck. Of a token: its name.
    fencing_token = models.BigIntegerField(null=True)
    owner = models.TextField(null=True)
    reasons = ArrayField(models.TextField(), db_default=[])
    # When the token expires.
    due_at = models.DateTimeField(null=True)
    opened_at = models.DateTimeField(db_default=Now())
    # Not found since then. The alert closes when it stays so for a while, and goes on if it is found again.
    absent_since = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "octo_alert"
        constraints = (
            # Two evaluations at the same time open one alert.
            models.UniqueConstraint(
                fields=("kind", "space", "subject"),
                condition=Q(closed_at__isnull=True),
                nulls_distinct=False,
                name="alert_is_open_once",
            ),
        )
        indexes = (models.Index(fields=("closed_at",), condition=~Q(closed_at=None), name="alert_to_purge"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"


class AlertNotice(models.Model):
    """A rule has sent this kind about this alert. Created in the transaction that creates the delivery, and once only:
    this key is why no message is sent twice."""

    pk = models.CompositePrimaryKey("rule_id", "alert_id", "kind")
    rule = models.ForeignKey(AlertRule, on_delete=models.CASCADE, related_name="notices", db_index=False)
    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="notices")
    kind = models.TextField()

    class Meta:
        db_table = "octo_alert_notice"

    def __str__(self) -> str:
        return f"{self.kind} {self.alert_id}"
