"""Notes of operators on locks: a handover note and a link to a runbook."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from locks.models.space import Space

MAX_NOTE = 2_000
MAX_RUNBOOK_URL = 1_000


class Note(models.Model):
    """Of one lock, or of all locks whose names begin with a prefix; of several that apply, the longest is shown. It
    outlives the locks: a name that was not used for long has its note when it is used again."""

    space = models.ForeignKey(Space, on_delete=models.CASCADE, related_name="notes", db_index=False)
    name = models.TextField(db_collation="C")
    is_prefix = models.BooleanField()
    text = models.TextField(blank=True)
    runbook_url = models.TextField(blank=True)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    person_name = models.TextField()
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "octo_note"
        constraints = (
            models.UniqueConstraint(fields=("space", "name", "is_prefix"), name="note_is_one_per_name_and_prefix"),
        )

    def __str__(self) -> str:
        return f"{self.name}{'…' if self.is_prefix else ''}"
