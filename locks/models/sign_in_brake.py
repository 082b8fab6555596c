"""How much of its tries each account and address has used up. See `locks.actions.brake`."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class SignInBrake(models.Model):
    """One of a fixed number of counters for each kind, so that no flood makes the table grow."""

    counter = models.CharField(primary_key=True, max_length=40)
    # Every try moves it on; one that would move it too far ahead of the clock is refused.
    used_until = models.DateTimeField(db_default=Now())
    recorded_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "octo_sign_in_brake"

    def __str__(self) -> str:
        return self.counter


class FamiliarAddress(models.Model):
    """A network from which somebody has signed in: strangers elsewhere cannot keep them out there."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="familiar_addresses")
    network = models.CharField(max_length=50)
    last_used_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "octo_familiar_address"
        constraints = (
            models.UniqueConstraint(fields=("user", "network"), name="familiar_address_is_one_per_person_and_network"),
        )

    def __str__(self) -> str:
        return f"{self.user} at {self.network}"
