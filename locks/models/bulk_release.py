"""A force-release of many locks: what somebody chose, under which fencing tokens, and what became of each.

Prepared when the choice is made, so that the preview, the task and the result speak of the same leases. Confirmed by a
person, then worked off by a task in small transactions; a row without an outcome has not been tried.
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
    # What was selected, in words, and how many locks that were.
    selection_label = models.TextField()
    total = models.PositiveIntegerField()
    reason = models.TextField(default="")
    lock_delay_seconds = models.PositiveSmallIntegerField(default=0)
    # Who prepared and confirmed it, with the name as it was: each lock's event bears it.
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    requested_by_name = models.TextField()
    address = models.GenericIPAddressField(null=True)
    request_id = models.TextField(null=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    confirmed_at = models.DateTimeField(null=True)
    # The last time a task got on with it: one that has not for long was killed.
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
    """One lock of a batch, as it was shown to whoever confirmed."""

    batch = models.ForeignKey(BulkRelease, on_delete=models.CASCADE, related_name="rows", db_index=False)
    position = models.PositiveIntegerField()
    lock_name = models.TextField(db_collation="C")
    fencing_token = models.BigIntegerField()
    owner = models.TextField(null=True)
    outcome = models.TextField(choices=ItemOutcome, null=True)
    # The event that records the release; or, if the lock had changed hands, who held it then.
    event_id = models.BigIntegerField(null=True)
    current_owner = models.TextField(null=True)

    class Meta:
        db_table = "octo_bulk_release_item"
        constraints = (
            models.UniqueConstraint(fields=("batch", "position"), name="bulk_release_item_position_is_unique"),
        )
        # Those still to be tried have none.
        indexes = (models.Index(fields=("batch", "outcome", "position"), name="bulk_release_item_by_outcome"),)

    def __str__(self) -> str:
        return self.lock_name
