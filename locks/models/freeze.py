"""A freeze: names with a prefix are closed to new claims until a time.

`locks.services.freezes` writes here, together with `frozen_until` of the space. engine/sql/functions/freeze.sql says
what obeys it.
"""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from locks.models.event import ActorKind
from locks.models.space import Space


class Freeze(models.Model):
    space = models.ForeignKey(Space, on_delete=models.PROTECT, related_name="freezes", db_index=False)
    # '' is the whole space.
    prefix = models.TextField(db_collation="C")
    reason = models.TextField()
    until = models.DateTimeField()
    # A person or a token, with the name at that time.
    actor_kind = models.TextField(choices=ActorKind)
    actor_id = models.BigIntegerField(null=True)
    actor_name = models.TextField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    # When it was lifted, or its end was recorded. Its end alone is enough for it to be over.
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "octo_freeze"
        constraints = (
            models.CheckConstraint(condition=Q(until__gt=F("created_at")), name="freeze_ends_after_it_began"),
        )
        indexes = (
            models.Index(fields=("space",), condition=Q(ended_at__isnull=True), name="freeze_in_force"),
            models.Index(fields=("until",), condition=Q(ended_at__isnull=True), name="freeze_to_end"),
        )

    def __str__(self) -> str:
        return f"{self.prefix or 'all names'} until {self.until}"
