"""Heartbeats of the background processes: Celery's workers and beat."""

from django.db import models
from django.db.models.functions import Now


class Heartbeat(models.Model):
    name = models.TextField(primary_key=True)
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "octo_heartbeat"

    def __str__(self) -> str:
        return self.name
