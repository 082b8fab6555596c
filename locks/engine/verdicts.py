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
    OPENED = "opened"
    KEPT_ALIVE = "kept_alive"
    ENDED = "ended"
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
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    HELD_BY_ANOTHER = "held_by_another"
    NOT_HELD = "not_held"
    MAX_HOLD_REACHED = "max_hold_reached"
    FENCING_MISMATCH = "fencing_mismatch"
    NO_SESSION = "no_session"
    SESSION_OVER = "session_over"
    QUEUE_FULL = "queue_full"
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
