"""A request that waits for a lock, and the server process that holds its connection.

Only `locks.engine` writes here: see engine/sql/end_and_hand_over.sql for how a lock is handed over.
"""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from locks.models.space import Space
from locks.models.token import Token


class ServerProcess(models.Model):
    """A server process in which requests wait. It sends heartbeats while there are any; without them all its requests
    count as gone. However many wait, a heartbeat is one small update."""

    id = models.UUIDField(primary_key=True, editable=False)
    last_heartbeat_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "octo_server_process"
        verbose_name_plural = "server processes"

    def __str__(self) -> str:
        return str(self.id)


class Waiter(models.Model):
    space = models.ForeignKey(Space, on_delete=models.CASCADE, related_name="waiters", db_index=False)
    name = models.TextField(db_collation="C")
    # First come, first served: when the request arrived at its server, in microseconds by the database's clock.
    queue_seq = models.BigIntegerField(db_default=0)
    server_id = models.UUIDField(null=True, editable=False)
    # The options of the lease, as in a lock.
    token = models.ForeignKey(Token, on_delete=models.PROTECT, related_name="+", db_index=False)
    session_id = models.UUIDField(null=True)
    bound_session_id = models.UUIDField(null=True, editable=False)
    owner = models.TextField()
    metadata = models.TextField(null=True)
    ttl_seconds = models.IntegerField(db_default=60)
    lock_delay_seconds = models.IntegerField(db_default=0)
    idempotency_digest = models.BinaryField(max_length=32, null=True, editable=False)
    request_digest = models.BinaryField(max_length=32, null=True, editable=False)
    # For the history.
    request_id = models.TextField(null=True)
    channel = models.TextField(db_default="api")
    address = models.GenericIPAddressField(null=True)
    enqueued_at = models.DateTimeField(db_default=Now(), editable=False)
    deadline_at = models.DateTimeField()
    # The lease that was handed over to it and is not claimed yet.
    handed_lease_id = models.UUIDField(null=True, editable=False)

    class Meta:
        db_table = "octo_waiter"
        indexes = (
            models.Index(fields=("space", "name", "queue_seq", "id"), name="waiter_queue"),
            models.Index(fields=("server_id",), name="waiter_at_server"),
            models.Index(fields=("session_id",), condition=Q(session_id__isnull=False), name="waiter_of_session"),
        )

    def __str__(self) -> str:
        return f"{self.owner} for {self.name}"
