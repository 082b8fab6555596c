"""The servers that share this database. Each reports itself every few seconds."""

from django.db import models
from django.db.models.functions import Now


class Server(models.Model):
    # Host and port: several servers may run on one host.
    name = models.TextField(primary_key=True)
    processes = models.PositiveIntegerField()
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "octo_server"

    def __str__(self) -> str:
        return self.name
