"""The latest run of each background task, for /metrics and the System page."""

from django.db import models
from django.db.models.functions import Now


class TaskRun(models.Model):
    name = models.TextField(primary_key=True)
    finished_at = models.DateTimeField(db_default=Now())
    duration_ms = models.BigIntegerField()
    # Time in the queue before a worker took the task; null if unknown.
    queued_ms = models.BigIntegerField(null=True)
    # A short result, or the error.
    outcome = models.TextField()
    failed = models.BooleanField()

    class Meta:
        db_table = "octo_task_run"

    def __str__(self) -> str:
        return f"{self.name}: {self.outcome}"
