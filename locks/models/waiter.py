"""Somebody in line for a name. First come, first served: the order is that of the ids."""

from django.db import models
from django.db.models.functions import Now

from locks.models.space import Space
from locks.models.token import Token


class Waiter(models.Model):
    space = models.ForeignKey(Space, on_delete=models.CASCADE, related_name="waiters", db_index=False)
    name = models.TextField(db_collation="C")
    token = models.ForeignKey(Token, on_delete=models.PROTECT, related_name="+", db_index=False)
    session_id = models.UUIDField(null=True)
    owner = models.TextField()
    metadata = models.TextField(null=True)
    waiting_since = models.DateTimeField(db_default=Now(), editable=False)
    # The server that holds the waiting request says so again and again; a waiter nobody speaks for is skipped.
    seen_at = models.DateTimeField(db_default=Now())
    gives_up_at = models.DateTimeField()

    class Meta:
        db_table = "octo_waiter"
        indexes = (models.Index(fields=("space", "name", "id"), name="waiter_in_line"),)

    def __str__(self) -> str:
        return f"{self.owner} for {self.name}"
