"""What a statement can answer about a request."""

from enum import StrEnum


class Verdict(StrEnum):
    # Done.
    ACQUIRED = "acquired"
    KEPT = "kept"  # the caller was recognised: the lease it has, not shortened
    RENEWED = "renewed"
    RELEASED = "released"
    LISTED = "listed"
    SETTLED = "settled"
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
    KEY_REUSED = "key_reused"
    HELD_BY_ANOTHER = "held_by_another"
    NO_LEASE = "no_lease"
    HELD_TOO_LONG = "held_too_long"
    CHANGED_HANDS = "changed_hands"
    NO_SESSION = "no_session"
    SESSION_OVER = "session_over"
    LINE_FULL = "line_full"
    TAKEN_OVER = "taken_over"
    LAPSED = "lapsed"
    UNKNOWN = "unknown"
    BUSY = "busy"  # somebody is working on the lock: no place in line yet
    # Undecided, and nothing was changed: another snapshot is needed, the lock has to be settled first, or the same
    # request is under way on another connection. None of them leaves the engine.
    AGAIN = "again"
    SETTLE = "settle"
    UNDER_WAY = "under_way"
