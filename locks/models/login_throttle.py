"""Counters of sign-in attempts by account and network. See `locks.services.login_throttle`."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class LoginThrottle(models.Model):
    """One of a fixed number of buckets for each limit, so that a flood cannot make the table grow."""

    bucket = models.CharField(primary_key=True, max_length=40)
    # Each attempt moves it forward; an attempt that would move it too far ahead of the clock is rejected.
    next_free_at = models.DateTimeField(db_default=Now())
    last_logged_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "octo_login_throttle"

    def __str__(self) -> str:
        return self.bucket


class KnownNetwork(models.Model):
    """A network from which a user has signed in. Its attempts are counted separately, so that attempts from other
    networks cannot lock the user out."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="known_networks")
    network = models.CharField(max_length=50)
    last_used_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "octo_known_network"
        constraints = (models.UniqueConstraint(fields=("user", "network"), name="known_network_is_unique_per_user"),)

    def __str__(self) -> str:
        return f"{self.user} at {self.network}"
