"""What a statement can answer about a request."""

from enum import StrEnum


class Verdict(StrEnum):
    # Done.
    ACQUIRED = "acquired"
    RECOGNISED = "recognised"  # the caller holds the lock already: its lease, not shortened
    RENEWED = "renewed"
    RELEASED = "released"
    LISTED = "listed"
    LEASE_ENDED = "lease_ended"
    WAITING = "waiting"
    LEFT = "left"
    FOUND = "found"
    WRITTEN = "written"
    DELETED = "deleted"
    OPENED = "opened"
    KEPT_ALIVE = "kept_alive"
    ENDED = "ended"
    CHANGED = "changed"
    # The state of the lock, which is an answer and not an error.
    HELD = "held"
    DELAYED = "delayed"
    FREE = "free"
    # Refused, and nothing was changed.
    UNAUTHENTICATED = "unauthenticated"
    SCOPE_MISSING = "scope_missing"
    NAME_NOT_ALLOWED = "name_not_allowed"
    TTL_TOO_LONG = "ttl_too_long"
    METADATA_TOO_LONG = "metadata_too_long"
    SPACE_FULL = "space_full"
    NAMES_OVERLAP = "names_overlap"
    NOT_LISTED = "not_listed"  # the access list of the lock does not include the token
    ACL_CONFLICT = "acl_conflict"  # the lock has another access list than the request brings
    NOT_PERMITTED = "not_permitted"  # only the holder and tokens with locks:force may
    HISTORY_FULL = "history_full"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    HELD_BY_ANOTHER = "held_by_another"
    NOT_HELD = "not_held"
    MAX_HOLD_REACHED = "max_hold_reached"
    FENCING_MISMATCH = "fencing_mismatch"
    NO_SESSION = "no_session"
    SESSION_OVER = "session_over"
    QUEUE_FULL = "queue_full"
    RUN_DRAINING = "run_draining"
    NO_ACTOR = "no_actor"
    NO_LAYER = "no_layer"
    VERSION_MISMATCH = "version_mismatch"
    TOO_MANY_BYTES = "too_many_bytes"
    TOO_MANY_KEYS = "too_many_keys"
    SUPERSEDED = "superseded"
    HANDOVER_EXPIRED = "handover_expired"
    UNKNOWN = "unknown"
    ROW_LOCKED = "row_locked"  # another transaction is changing the lock, which is not marked yet
    # Undecided, and nothing was changed: another snapshot is needed, the lock has to be handed over first, or the same
    # request is in progress on another connection. No operation returns these.
    RETRY = "retry"
    UNGUARDED = "unguarded"  # a name of a namespace, which has to run alone
    ROW_MISSING = "row_missing"  # a name of a namespace without a row, which has to be inserted to wait for it
    NEEDS_HANDOVER = "needs_handover"
    IN_PROGRESS = "in_progress"


# A statement with one of these has changed a row, so the database had to commit it.
PROVES_A_WRITE = frozenset(
    {
        Verdict.ACQUIRED, Verdict.RENEWED, Verdict.RELEASED, Verdict.LEASE_ENDED, Verdict.OPENED, Verdict.KEPT_ALIVE,
        Verdict.ENDED,
    }
)  # fmt: skip
# To the client it means that what it had is over.
DENIES_A_LEASE = frozenset(
    {
        Verdict.HELD_BY_ANOTHER, Verdict.NOT_HELD, Verdict.FENCING_MISMATCH, Verdict.NO_SESSION, Verdict.SESSION_OVER,
        Verdict.SUPERSEDED, Verdict.HANDOVER_EXPIRED, Verdict.UNKNOWN,
    }
)  # fmt: skip
