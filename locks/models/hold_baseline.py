"""What is usual for locks that have been held for a while, worked out once a hold from the sample_size before it."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from locks.models.space import Space


class HoldBaseline(models.Model):
    # No constraint: the engine removes idle rows, and a row here whose lock has gone means nothing.
    lock_id = models.BigIntegerField(primary_key=True)
    fencing_token = models.BigIntegerField()
    space_id = models.BigIntegerField()
    # How many earlier sample_size were looked at, the middle one of them, and what nine in ten stayed below.
    sample_size = models.PositiveSmallIntegerField()
    median_ms = models.BigIntegerField(null=True)
    p90_ms = models.BigIntegerField(null=True)
    # From when on the hold is far longer than usual; null when too little is known.
    anomalous_after = models.DateTimeField(null=True)

    class Meta:
        db_table = "octo_hold_baseline"
        indexes = (
            models.Index(
                fields=("space_id", "anomalous_after"),
                condition=Q(anomalous_after__isnull=False),
                name="hold_baseline_anomalous",
            ),
        )

    def __str__(self) -> str:
        return f"{self.lock_id}: {self.median_ms} ms"


class StuckCount(models.Model):
    """How many locks of a space needed somebody when a task last looked: the number beside Stuck on every page."""

    space = models.OneToOneField(Space, on_delete=models.CASCADE, primary_key=True, related_name="stuck_count")
    stuck = models.PositiveIntegerField()
    counted_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "octo_stuck_count"

    def __str__(self) -> str:
        return f"{self.stuck} in {self.space}"
