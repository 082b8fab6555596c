"""A session is one running process; the locks acquired with it are held only while it is active.

Only `locks.engine` writes here. A keepalive changes no indexed column, so it is a heap-only update.
"""

import uuid

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from locks.models.space import Space
from locks.models.token import Token

MIN_SESSION_SECONDS = 10
MAX_SESSION_SECONDS = 300
SESSION_SECONDS = 60
# Of a space; open_session.sql has it as a literal.
MAX_LIVE_SESSIONS = 10_000


class Session(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    space = models.ForeignKey(Space, on_delete=models.PROTECT, related_name="sessions")
    token = models.ForeignKey(Token, on_delete=models.PROTECT, related_name="sessions")
    owner = models.TextField()
    metadata = models.TextField(null=True)
    ttl_seconds = models.IntegerField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    last_keepalive_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    # When the sweep checks it next; null once its end is recorded. Like a lock's, never moved by a keepalive.
    next_sweep_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "octo_session"
        constraints = (
            models.CheckConstraint(
                condition=Q(ttl_seconds__gte=MIN_SESSION_SECONDS, ttl_seconds__lte=MAX_SESSION_SECONDS),
                name="session_ttl_is_within_bounds",
            ),
            models.CheckConstraint(condition=Q(expires_at__gt=F("created_at")), name="session_ends_after_it_began"),
        )
        indexes = (
            models.Index(fields=("next_sweep_at",), condition=Q(next_sweep_at__isnull=False), name="session_to_sweep"),
            # The live ones, which open_session.sql counts.
            models.Index(fields=("space",), condition=Q(next_sweep_at__isnull=False), name="session_live_in_space"),
        )

    def __str__(self) -> str:
        return f"{self.owner} ({self.id})"
