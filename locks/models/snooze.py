"""A stuck lock that is hidden from the inbox until a time, for its present lease only."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from locks.models.space import Space


class Snooze(models.Model):
    space = models.ForeignKey(Space, on_delete=models.CASCADE, related_name="snoozes", db_index=False)
    lock_name = models.TextField(db_collation="C")
    # The next lease has another one, so the snooze does not apply to it.
    fencing_token = models.BigIntegerField()
    until = models.DateTimeField()
    note = models.TextField()
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    person_name = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "octo_snooze"
        constraints = (
            models.UniqueConstraint(
                fields=("space", "lock_name", "fencing_token"), name="snooze_is_one_per_lock_and_holder"
            ),
        )

    def __str__(self) -> str:
        return f"{self.lock_name} until {self.until}"
