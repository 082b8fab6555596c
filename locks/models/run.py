"""Runs: one execution of a team of agents, as a tree of layers with actors, and a key-value store for each layer.

An actor's token and session are ordinary rows, linked from here. Leases of a run are ordinary locks whose stored name
carries the id of the run or the layer (locks/runs/names.py).
"""

import uuid

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from locks.models.space import Space
from locks.models.token import Token

IDLE_SECONDS = 3600
MAX_IDLE_SECONDS = 7 * 86_400
DEFAULT_DEPTH = 2
MAX_DEPTH = 16


class RunState(models.TextChoices):
    ACTIVE = "active"
    DRAINING = "draining"
    FINISHED = "finished"


class Run(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    space = models.ForeignKey(Space, on_delete=models.PROTECT, related_name="runs", db_index=False)
    name = models.TextField()
    metadata = models.TextField(null=True)
    state = models.TextField(choices=RunState, default=RunState.ACTIVE)
    # The run finishes when its lead has been silent for this long.
    ttl_seconds = models.IntegerField(default=IDLE_SECONDS)
    max_depth = models.IntegerField(default=DEFAULT_DEPTH)
    # Whether a snapshot is kept when the run finishes.
    dump = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    draining_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    finish_reason = models.TextField(null=True)

    class Meta:
        db_table = "octo_run"
        constraints = (
            models.CheckConstraint(
                condition=Q(state=RunState.FINISHED, finished_at__isnull=False)
                | (~Q(state=RunState.FINISHED) & Q(finished_at__isnull=True)),
                name="run_is_finished_or_has_no_end",
            ),
            models.CheckConstraint(
                condition=Q(max_depth__gte=1, max_depth__lte=MAX_DEPTH), name="run_depth_is_bounded"
            ),
        )
        indexes = (
            models.Index(fields=("space", "-created_at", "id"), name="run_of_space"),
            models.Index(fields=("id",), condition=Q(finished_at__isnull=True), name="run_unfinished"),
        )

    def __str__(self) -> str:
        return self.name


class RunDump(models.Model):
    """The export of a run as it was when it finished: JSON, compressed by zlib."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="kept_dump")
    content = models.BinaryField()

    class Meta:
        db_table = "octo_run_dump"

    def __str__(self) -> str:
        return str(self.run_id)


class Layer(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="layers")
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, related_name="children")
    name = models.TextField()
    # The root has depth 1.
    depth = models.IntegerField()
    # Whether the lead of the parent layer may read the store of this layer.
    read_down = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    # Running totals of the store, so that a write does not sum its entries.
    kv_keys = models.IntegerField(db_default=0)
    kv_bytes = models.BigIntegerField(db_default=0)
    # How many entries were deleted and are kept for their version; the highest version of those that are not.
    kv_deleted_paths = models.IntegerField(db_default=0)
    kv_last_version = models.BigIntegerField(db_default=0)
    # Until then writes notify the servers at which requests wait for an entry.
    waited_until = models.DateTimeField(null=True)

    class Meta:
        db_table = "octo_layer"

    def __str__(self) -> str:
        return self.name


class RunActorRole(models.TextChoices):
    LEAD = "lead"
    WORKER = "worker"


class RunActor(models.Model):
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="actors", db_index=False)
    layer = models.ForeignKey(Layer, on_delete=models.CASCADE, related_name="actors")
    # The `actor_id` of the API: what the actor is called in its run.
    name = models.TextField(db_collation="C")
    role = models.TextField(choices=RunActorRole)
    token = models.OneToOneField(Token, on_delete=models.PROTECT, related_name="run_actor")
    session_id = models.UUIDField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    ended_at = models.DateTimeField(null=True)
    end_reason = models.TextField(null=True)
    # Counted by the servers and written once a second.
    kv_calls = models.BigIntegerField(db_default=0)
    kv_denied = models.BigIntegerField(db_default=0)
    lease_calls = models.BigIntegerField(db_default=0)
    lease_denied = models.BigIntegerField(db_default=0)
    lease_contended = models.BigIntegerField(db_default=0)

    class Meta:
        db_table = "octo_run_actor"
        constraints = (
            # An actor that has ended may come back under the same name.
            models.UniqueConstraint(
                fields=("run", "name"), condition=Q(ended_at__isnull=True), name="actor_name_is_unique_in_its_run"
            ),
        )
        indexes = (
            models.Index(fields=("run", "name"), name="actor_of_run"),
            models.Index(fields=("session_id",), condition=Q(ended_at__isnull=True), name="actor_present"),
        )

    def __str__(self) -> str:
        return self.name


class KvEncoding(models.TextChoices):
    JSON = "json"
    TEXT = "text"
    BASE64 = "base64"


class KvEntryQuerySet(models.QuerySet["KvEntry"]):
    def present(self) -> "KvEntryQuerySet":
        return self.filter(is_deleted=False)


class KvEntry(models.Model):
    """A write to an existing path changes no indexed column, so it is a heap-only update. The row of a deleted entry is
    empty and keeps its version, so that the next entry of the path has a higher one."""

    pk = models.CompositePrimaryKey("layer_id", "path")
    # No constraint: checking it on every new path would lock the layer's row. Only `locks.runs` deletes layers.
    layer = models.ForeignKey(
        Layer, on_delete=models.CASCADE, related_name="entries", db_index=False, db_constraint=False
    )
    path = models.TextField(db_collation="C")
    version = models.BigIntegerField()
    value = models.BinaryField()
    encoding = models.TextField(choices=KvEncoding)
    # Of the value in bytes.
    size = models.IntegerField()
    written_by = models.TextField()
    written_at = models.DateTimeField()
    is_deleted = models.BooleanField(db_default=False)

    objects = KvEntryQuerySet.as_manager()

    class Meta:
        db_table = "octo_kv_entry"
        verbose_name_plural = "kv entries"
        constraints = (models.CheckConstraint(condition=Q(version__gte=1), name="kv_version_starts_at_one"),)

    def __str__(self) -> str:
        return self.path
