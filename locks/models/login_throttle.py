"""How much of its tries each account and address has used up. See `locks.services.login_throttle`."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class LoginThrottle(models.Model):
    """One of a fixed number of counters for each kind, so that no flood makes the table grow."""

    bucket = models.CharField(primary_key=True, max_length=40)
    # Every try moves it on; one that would move it too far ahead of the clock is refused.
    next_free_at = models.DateTimeField(db_default=Now())
    last_logged_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "octo_login_throttle"

    def __str__(self) -> str:
        return self.bucket


class KnownNetwork(models.Model):
    """A network from which somebody has signed in: strangers elsewhere cannot keep them out there."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="known_networks")
    network = models.CharField(max_length=50)
    last_used_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "octo_known_network"
        constraints = (models.UniqueConstraint(fields=("user", "network"), name="known_network_is_unique_per_user"),)

    def __str__(self) -> str:
        return f"{self.user} at {self.network}"
