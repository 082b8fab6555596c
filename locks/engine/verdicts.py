"""What a statement can answer about a request."""

from enum import StrEnum


class Verdict(StrEnum):
    # Done.
    ACQUIRED = "acquired"
    KEPT = "kept"  # the caller was recognised: the lease it has, not shortened
    RENEWED = "renewed"
    RELEASED = "released"
    LISTED = "listed"
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
    KEY_REUSED = "key_reused"
    HELD_BY_ANOTHER = "held_by_another"
    NO_LEASE = "no_lease"
    HELD_TOO_LONG = "held_too_long"
    CHANGED_HANDS = "changed_hands"
    # Undecided, and nothing was changed: another snapshot is needed, or the same request is under way on another
    # connection. Neither leaves the engine.
    AGAIN = "again"
    UNDER_WAY = "under_way"
