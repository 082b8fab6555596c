"""A session is one running process; the locks taken with it live only while it does."""

import uuid

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from locks.models.space import Space
from locks.models.token import Token


class Session(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    space = models.ForeignKey(Space, on_delete=models.PROTECT, related_name="sessions")
    token = models.ForeignKey(Token, on_delete=models.PROTECT, related_name="sessions")
    owner = models.TextField()
    metadata = models.TextField(null=True)
    ttl_seconds = models.IntegerField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    kept_alive_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "octo_session"
        constraints = (
            models.CheckConstraint(
                condition=Q(ttl_seconds__gte=10, ttl_seconds__lte=300), name="session_ttl_is_within_bounds"
            ),
            models.CheckConstraint(condition=Q(expires_at__gt=F("created_at")), name="session_ends_after_it_began"),
        )

    def __str__(self) -> str:
        return f"{self.owner} ({self.id})"
