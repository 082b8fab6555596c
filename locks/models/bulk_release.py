"""A force-release of many locks: the selected leases by fencing token, and the outcome of each.

The selection is stored when it is made, so that preview, task and result refer to the same leases. After a user has
confirmed it, a task releases the locks in small transactions; an item without an outcome has not been tried.
"""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from locks.models.space import Space


class BulkReleaseState(models.TextChoices):
    PREPARED = "prepared"
    CONFIRMED = "confirmed"
    FINISHED = "finished"
    STOPPED = "stopped"


class ItemOutcome(models.TextChoices):
    RELEASED = "released"
    FENCING_MISMATCH = "fencing_mismatch"
    NOT_HELD = "not_held"
    NOT_ATTEMPTED = "not_attempted"


class BulkRelease(models.Model):
    space = models.ForeignKey(Space, on_delete=models.PROTECT, related_name="bulk_releases", db_index=False)
    state = models.TextField(choices=BulkReleaseState, default=BulkReleaseState.PREPARED)
    # Describes the selection to people.
    selection_label = models.TextField()
    total = models.PositiveIntegerField()
    reason = models.TextField(default="")
    lock_delay_seconds = models.PositiveSmallIntegerField(default=0)
    # The user who confirmed it (before: prepared it), with the name at that time, for the events of the locks.
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    requested_by_name = models.TextField()
    address = models.GenericIPAddressField(null=True)
    request_id = models.TextField(null=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    confirmed_at = models.DateTimeField(null=True)
    # Set by each chunk. If it is old, the task was lost.
    last_progress_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "octo_bulk_release"
        indexes = (
            models.Index(fields=("space", "-id"), name="bulk_release_of_space"),
            models.Index(
                fields=("last_progress_at",),
                condition=Q(state=BulkReleaseState.CONFIRMED),
                name="bulk_release_in_progress",
            ),
        )

    def __str__(self) -> str:
        return f"{self.total} locks, {self.state}"


class BulkReleaseItem(models.Model):
    """One lock of a batch, as shown in the preview."""

    batch = models.ForeignKey(BulkRelease, on_delete=models.CASCADE, related_name="rows", db_index=False)
    position = models.PositiveIntegerField()
    lock_name = models.TextField(db_collation="C")
    fencing_token = models.BigIntegerField()
    owner = models.TextField(null=True)
    outcome = models.TextField(choices=ItemOutcome, null=True)
    # The event of the release; or, on a fencing mismatch, the owner at that time.
    event_id = models.BigIntegerField(null=True)
    current_owner = models.TextField(null=True)

    class Meta:
        db_table = "octo_bulk_release_item"
        constraints = (
            models.UniqueConstraint(fields=("batch", "position"), name="bulk_release_item_position_is_unique"),
        )
        # The next chunk is read by outcome IS NULL.
        indexes = (models.Index(fields=("batch", "outcome", "position"), name="bulk_release_item_by_outcome"),)

    def __str__(self) -> str:
        return self.lock_name
