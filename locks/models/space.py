"""Spaces: each is a set of unique lock names with its own limits."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from locks.models.team import Team

MAX_TTL_SECONDS = 31_536_000


class NamespaceRule(models.TextChoices):
    """Which live leases a request for a name of the namespace conflicts with."""

    EXACT = "exact", "the same name"
    TREE = "tree", "the same path, an ancestor or a descendant"
    ALL = "all", "any name of any namespace"


class LockPolicy(models.TextChoices):
    """What a check of names answers."""

    OFF = "off", "always clear"
    WARN = "warn", "warn about leases of others"
    REQUIRE = "require", "block unless own leases cover the names"


DEFAULT_NAMESPACES = {"issue:": NamespaceRule.EXACT, "path:": NamespaceRule.TREE, "repo:": NamespaceRule.ALL}
MAX_METADATA = 16_384


class Space(models.Model):
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="spaces", db_index=False)
    slug = models.SlugField(max_length=50)
    name = models.CharField(max_length=100)
    default_ttl_seconds = models.PositiveIntegerField(
        default=60,
        validators=[MinValueValidator(1)],
        help_text="TTL of a lease when the request has none.",
    )
    max_ttl_seconds = models.PositiveIntegerField(
        default=86_400,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_TTL_SECONDS)],
        help_text="Maximum TTL of a request.",
    )
    max_hold_seconds = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Maximum total hold: later renewals are rejected. Empty: no limit.",
    )
    max_metadata_length = models.PositiveIntegerField(
        default=1_024,
        validators=[MaxValueValidator(MAX_METADATA)],
        help_text="Maximum length of metadata, in characters.",
    )
    max_live_locks = models.PositiveIntegerField(
        default=100_000,
        validators=[MinValueValidator(1)],
        help_text="Limit of held locks. Counted once a second.",
    )
    max_names = models.PositiveIntegerField(
        default=1_000_000,
        db_default=1_000_000,
        validators=[MinValueValidator(1)],
        help_text="Limit of names, free ones included. Counted once a minute. Names that are not used for 30 days are "
        "removed.",
    )
    max_events = models.PositiveBigIntegerField(
        default=100_000_000,
        db_default=100_000_000,
        validators=[MinValueValidator(1)],
        help_text="Limit of events in the history. Counted once a minute. At the limit no leases are granted; those "
        "that are held can be renewed and released.",
    )
    max_waiters_per_name = models.PositiveIntegerField(
        default=1_000,
        help_text="Limit of waiting requests for one name. Further requests are rejected.",
    )
    max_waiters = models.PositiveIntegerField(default=10_000, help_text="Limit of waiting requests in the space.")
    requests_per_second = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Requests per second for each token. Empty: the server's default.",
    )
    octostore_compatibility = models.BooleanField(
        default=False,
        help_text="Answers as OctoStore does where the two differ: above all, a token that acquires a lock again gets "
        "the same lease. Off: only an idempotency key or a session identifies the holder.",
    )
    allow_non_expiring_tokens = models.BooleanField(
        default=False, help_text="Whether tokens without an expiry may be issued."
    )
    # The rule of each namespace, whose key ends with a colon. A column and not a table: every acquire reads it with the
    # limits of the space.
    namespaces = models.JSONField(
        db_default=models.Value({key: rule.value for key, rule in DEFAULT_NAMESPACES.items()}, models.JSONField()),
        editable=False,
    )
    lock_policy = models.CharField(max_length=7, choices=LockPolicy, db_default=LockPolicy.WARN)
    # Until then requests may wait for names of namespaces. Without any, a release need not look for them.
    namespace_queue_until = models.DateTimeField(null=True, blank=True, editable=False)
    # The latest end of the freezes of the space; null without any. See engine/sql/functions/freeze.sql.
    frozen_until = models.DateTimeField(null=True, blank=True, editable=False)
    viewers_see_peer_values = models.BooleanField(
        db_default=False,
        default=False,
        help_text="Whether viewers see the values that actors of a run keep under /peer. Operators and admins do.",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    archived_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        db_table = "octo_space"
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(fields=("team", "slug"), name="space_slug_is_unique_in_its_team"),
            models.CheckConstraint(
                condition=Q(
                    default_ttl_seconds__gte=1,
                    default_ttl_seconds__lte=F("max_ttl_seconds"),
                    max_ttl_seconds__lte=MAX_TTL_SECONDS,
                ),
                name="space_default_ttl_is_within_the_longest",
            ),
            models.CheckConstraint(
                condition=Q(max_hold_seconds__isnull=True) | Q(max_hold_seconds__gte=1),
                name="space_longest_hold_is_positive",
            ),
            models.CheckConstraint(condition=Q(lock_policy__in=LockPolicy.values), name="space_lock_policy_is_known"),
        )

    def __str__(self) -> str:
        return f"{self.team.slug}/{self.slug}"

    def clean(self) -> None:
        errors: dict[str, str] = {}
        if self.default_ttl_seconds and self.max_ttl_seconds and self.default_ttl_seconds > self.max_ttl_seconds:
            errors["default_ttl_seconds"] = f"At most the maximum TTL, which is {self.max_ttl_seconds} s."
        if self.max_hold_seconds and self.max_ttl_seconds and self.max_hold_seconds < self.max_ttl_seconds:
            errors["max_hold_seconds"] = (
                f"At least the maximum TTL, which is {self.max_ttl_seconds} s. Lower the maximum TTL first, or leave "
                "this empty."
            )
        if errors:
            raise ValidationError(errors)


class SpaceUsage(models.Model):
    """What a space uses of its limits, so that requests can enforce them without counting: live locks, counted at most
    once a second; names and events, once a minute."""

    space = models.OneToOneField(Space, on_delete=models.CASCADE, primary_key=True, related_name="usage")
    live_locks = models.PositiveIntegerField(default=0)
    counted_at = models.DateTimeField(db_default=Now())
    names = models.PositiveIntegerField(default=0, db_default=0)
    events = models.PositiveBigIntegerField(default=0, db_default=0)
    storage_counted_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "octo_space_usage"

    def __str__(self) -> str:
        return f"{self.live_locks} in {self.space}"
