"""A person asks the operators to release a lock. It concerns the present lease only."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from locks.models.space import Space


class ReleaseRequest(models.Model):
    """The last of each person for each lock."""

    space = models.ForeignKey(Space, on_delete=models.CASCADE, related_name="release_requests", db_index=False)
    lock_name = models.TextField(db_collation="C")
    # The next lease has another one, so the request does not apply to it.
    fencing_token = models.BigIntegerField()
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    person_name = models.TextField()
    reason = models.TextField()
    requested_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "octo_release_request"
        constraints = (
            models.UniqueConstraint(
                fields=("space", "lock_name", "person"), name="release_request_is_one_per_lock_and_person"
            ),
        )

    def __str__(self) -> str:
        return f"{self.lock_name} by {self.person_name}"
