"""Bearer tokens. Only the digest is stored; the plaintext appears only in the response that issues the token."""

from typing import Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from locks.models.space import Space


class Scope(models.TextChoices):
    LOCKS_READ = "locks:read"
    LOCKS_WRITE = "locks:write"
    LOCKS_FORCE = "locks:force"
    AUDIT_READ = "audit:read"
    WEBHOOKS_MANAGE = "webhooks:manage"
    TOKENS_MANAGE = "tokens:manage"
    RUNS_MANAGE = "runs:manage"


PRESETS: dict[str, tuple[Scope, ...]] = {
    "worker": (Scope.LOCKS_READ, Scope.LOCKS_WRITE),
    "observer": (Scope.LOCKS_READ, Scope.AUDIT_READ),
    "operator-bot": (Scope.LOCKS_READ, Scope.LOCKS_FORCE, Scope.AUDIT_READ),
    "orchestrator": (Scope.LOCKS_READ, Scope.LOCKS_WRITE, Scope.RUNS_MANAGE),
}


class TokenQuerySet(models.QuerySet["Token"]):
    def active(self) -> Self:
        """Neither revoked nor expired. In an archived space such a token is valid again once the space is restored."""
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=Now()), revoked_at=None)

    def valid(self) -> Self:
        """Tokens that the API accepts now. The SQL view octo_live_token_v2 states the same rule for the engine."""
        return self.active().filter(space__archived_at=None)

    def issued(self) -> Self:
        """Tokens that a person or program has issued. Those of a run's actors are listed with their run."""
        return self.filter(actor_session_id=None)


class Token(models.Model):
    space = models.ForeignKey(Space, on_delete=models.PROTECT, related_name="tokens")
    name = models.CharField(
        max_length=128, help_text="What uses the token. The owner of its leases unless a request names one."
    )
    public_id = models.CharField(max_length=12, unique=True, editable=False)
    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    scopes = ArrayField(models.CharField(max_length=32, choices=Scope))
    prefixes = ArrayField(
        models.CharField(max_length=256),
        default=list,
        blank=True,
        help_text="The token may use only lock names that start with one of these. Empty: all locks.",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    expires_at = models.DateTimeField(null=True, blank=True)
    # A newer token has the same name. This one stays valid until it expires.
    rotated_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_used_address = models.GenericIPAddressField(null=True, blank=True, editable=False)
    last_used_agent = models.CharField(max_length=200, blank=True, default="", editable=False)
    # Of the token of a run's actor: the session that all of its leases end with, and whether its run accepts no new
    # leases. They are here, and not only with the actor and the run, because every acquire reads this row.
    actor_session_id = models.UUIDField(null=True, blank=True, editable=False)
    is_draining = models.BooleanField(db_default=False, editable=False)

    objects = TokenQuerySet.as_manager()

    class Meta:
        db_table = "octo_token"
        constraints = (
            # Revoked and rotated tokens keep their names in the history.
            models.UniqueConstraint(
                fields=("space", "name"),
                condition=Q(revoked_at__isnull=True, rotated_at__isnull=True),
                name="token_name_is_unique_while_in_use",
            ),
            models.CheckConstraint(
                condition=Q(scopes__contained_by=Scope.values) & ~Q(scopes=[]), name="token_scopes_are_known"
            ),
        )
        indexes = (
            # For the search by the beginning of a name, past any number of tokens of runs.
            models.Index(
                fields=("space", "name"),
                condition=Q(actor_session_id__isnull=True),
                opclasses=("int8_ops", "varchar_pattern_ops"),
                name="token_issued_by_name",
            ),
            # Finds those that expire soon.
            models.Index(
                fields=("expires_at",),
                condition=Q(revoked_at=None, rotated_at=None, actor_session_id=None),
                name="token_expiry",
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.public_id})"
