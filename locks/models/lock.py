"""The lock table: one row for each name, kept after the lease has ended because it carries the fencing token.

Only `locks.engine` writes here. A renewal changes no indexed column, and the fillfactor leaves room on the pages (see
the migration), so it stays a heap-only update.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Now
from django.db.models.lookups import LessThanOrEqual

from locks.models.space import Space
from locks.models.token import Token

MAX_FENCING_TOKEN = 2**53 - 1


class Lock(models.Model):
    # No constraint: checking it on every new name would write-lock the space's row. Spaces are never deleted.
    space = models.ForeignKey(
        Space, on_delete=models.PROTECT, related_name="locks", db_constraint=False, db_index=False
    )
    name = models.TextField(db_collation="C")
    fencing_token = models.BigIntegerField(default=0)
    # The holder. All of this is null while the lock is free.
    lease_id = models.UUIDField(null=True, editable=False)
    holder_id = models.TextField(null=True)
    # Null while a person holds the lock. No constraint: checking it on every acquire would write-lock the token's row.
    # Tokens are never deleted.
    token = models.ForeignKey(
        Token, on_delete=models.DO_NOTHING, null=True, related_name="+", db_constraint=False, db_index=False
    )
    # The session that acquired it, and the session that it ends with: the same, or null if it outlives the session.
    session_id = models.UUIDField(null=True, editable=False)
    bound_session_id = models.UUIDField(null=True, editable=False)
    owner = models.TextField(null=True)
    metadata = models.TextField(null=True)
    ttl_seconds = models.IntegerField(null=True)
    acquired_at = models.DateTimeField(null=True)
    renewed_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    renewals = models.IntegerField(null=True)
    # By these a retry of the request that made this lease is recognised; see engine/sql/acquire.sql.
    idempotency_digest = models.BinaryField(max_length=32, null=True, editable=False)
    request_digest = models.BinaryField(max_length=32, null=True, editable=False)
    # The sweep checks a lease no earlier than this. It is set by acquire and moved by the sweep, never later by a
    # renewal, so it can be indexed and renewals stay heap-only updates.
    next_sweep_at = models.DateTimeField(null=True, editable=False)
    # How long the name cannot be acquired after the lease ends, and, once it has ended, until when.
    lock_delay_seconds = models.IntegerField(default=0)
    available_at = models.DateTimeField(null=True)
    # The last request that joined the queue. If it is not null, requests may be waiting, and only
    # engine/sql/end_and_hand_over.sql may free or grant this lock. Read from the locked row it is current, while a
    # snapshot of the waiters may be old.
    last_waiter_id = models.BigIntegerField(null=True, editable=False)
    # Who may acquire the lock, as `user:<token name>` or `token:<public id>`; null: every token. It outlives the lease.
    acl = ArrayField(models.TextField(), null=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        db_table = "octo_lock"
        constraints = (
            models.UniqueConstraint(fields=("space", "name"), name="lock_name_is_unique_in_its_space"),
            models.CheckConstraint(
                condition=Q(fencing_token__gte=0, fencing_token__lte=MAX_FENCING_TOKEN),
                name="lock_fencing_token_is_exact_in_json",
            ),
            models.CheckConstraint(
                condition=~Q(name="") & Q(LessThanOrEqual(Func(F("name"), function="octet_length"), Value(256))),
                name="lock_name_is_within_256_bytes",
            ),
            models.CheckConstraint(
                condition=Q(
                    lease_id__isnull=True,
                    holder_id__isnull=True,
                    token__isnull=True,
                    session_id__isnull=True,
                    bound_session_id__isnull=True,
                    owner__isnull=True,
                    metadata__isnull=True,
                    ttl_seconds__isnull=True,
                    acquired_at__isnull=True,
                    renewed_at__isnull=True,
                    expires_at__isnull=True,
                    renewals__isnull=True,
                    idempotency_digest__isnull=True,
                    request_digest__isnull=True,
                    next_sweep_at__isnull=True,
                )
                | Q(
                    lease_id__isnull=False,
                    holder_id__isnull=False,
                    owner__isnull=False,
                    ttl_seconds__gte=1,
                    acquired_at__isnull=False,
                    renewed_at__gte=F("acquired_at"),
                    expires_at__gt=F("acquired_at"),
                    renewals__gte=0,
                    next_sweep_at__isnull=False,
                    available_at__isnull=True,
                ),
                name="lock_is_wholly_held_or_wholly_free",
            ),
            # A person has no session, and sends no idempotency key.
            models.CheckConstraint(
                condition=Q(token__isnull=False) | Q(session_id__isnull=True, idempotency_digest__isnull=True),
                name="lock_session_and_key_are_of_a_token",
            ),
            models.CheckConstraint(
                condition=Q(lock_delay_seconds__gte=0, lock_delay_seconds__lte=60),
                name="lock_delay_is_at_most_a_minute",
            ),
        )
        indexes = (
            # Held locks by name: the list, its pages and prefixes, whatever the number of idle names.
            models.Index(fields=("space", "name"), condition=Q(lease_id__isnull=False), name="lock_held_by_name"),
            # Free, but in the cooldown after the last lease. A renewal changes neither column.
            models.Index(
                fields=("space", "available_at"), condition=Q(available_at__isnull=False), name="lock_closed_until"
            ),
            models.Index(fields=("next_sweep_at",), condition=Q(lease_id__isnull=False), name="lock_to_sweep"),
            models.Index(fields=("session_id",), condition=Q(session_id__isnull=False), name="lock_of_session"),
        )

    def __str__(self) -> str:
        return self.name
