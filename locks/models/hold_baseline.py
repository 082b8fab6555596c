"""How long a lock is usually held, computed once for each long hold from the holds before it."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from locks.models.space import Space


class HoldBaseline(models.Model):
    # Without a foreign key: the engine deletes idle locks, and a baseline without its lock is harmless.
    lock_id = models.BigIntegerField(primary_key=True)
    fencing_token = models.BigIntegerField()
    space_id = models.BigIntegerField()
    # How many earlier holds were sampled, their median and their 90th percentile.
    sample_size = models.PositiveSmallIntegerField()
    median_ms = models.BigIntegerField(null=True)
    p90_ms = models.BigIntegerField(null=True)
    # When the hold becomes anomalous; null with too few samples.
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
    """How many locks of a space were stuck when a task last counted them, shown beside Stuck on every page, and the
    most urgent of them in order (octo_known_stuck_lock_v2)."""

    space = models.OneToOneField(Space, on_delete=models.CASCADE, primary_key=True, related_name="stuck_count")
    stuck = models.PositiveIntegerField()
    counted_at = models.DateTimeField(db_default=Now())
    # An entry of each for each lock; reasons are separated by spaces.
    lock_ids = ArrayField(models.BigIntegerField(), default=list)
    fencing_tokens = ArrayField(models.BigIntegerField(), default=list)
    reasons = ArrayField(models.TextField(), db_default=[])

    class Meta:
        db_table = "octo_stuck_count"

    def __str__(self) -> str:
        return f"{self.stuck} in {self.space}"
