"""Errors of the API: a stable code, a title, and details that say what to do next.

The module needs neither Django nor a database, so that it works when they fail.
"""

import os
import time
from enum import StrEnum
from secrets import token_hex
from typing import Literal, NoReturn

import msgspec

RETRY_AFTER_SECONDS = 1


class Code(StrEnum):
    AUTHENTICATION_REQUIRED = "authentication_required"
    AUTHENTICATION_FAILED = "authentication_failed"
    FORBIDDEN = "forbidden"
    INVALID_INPUT = "invalid_input"
    INVALID_TTL = "invalid_ttl"
    INVALID_LOCK_NAME = "invalid_lock_name"
    LEASE_NOT_CURRENT = "lease_not_current"
    NOT_FOUND = "not_found"
    SESSION_EXPIRED = "session_expired"
    POSITION_EXPIRED = "position_expired"
    CONFLICT = "conflict"
    RUN_DRAINING = "run_draining"
    STORE_LIMIT_EXCEEDED = "store_limit_exceeded"
    LOCK_LIMIT_EXCEEDED = "lock_limit_exceeded"
    CAPACITY_EXCEEDED = "capacity_exceeded"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    INTERNAL_ERROR = "internal_error"


# OctoStore's, where it has the code.
_TITLES = {
    Code.AUTHENTICATION_REQUIRED: "Authorization header required",
    Code.AUTHENTICATION_FAILED: "Authentication failed",
    Code.FORBIDDEN: "Forbidden",
    Code.INVALID_INPUT: "Invalid input",
    Code.INVALID_TTL: "Invalid TTL",
    Code.INVALID_LOCK_NAME: "Invalid lock name",
    Code.LEASE_NOT_CURRENT: "Lease is not current",
    Code.NOT_FOUND: "Not found",
    Code.SESSION_EXPIRED: "Session expired",
    Code.POSITION_EXPIRED: "Position expired",
    Code.CONFLICT: "Conflict",
    Code.RUN_DRAINING: "Run draining",
    Code.STORE_LIMIT_EXCEEDED: "Store limit exceeded",
    Code.LOCK_LIMIT_EXCEEDED: "Lock limit exceeded",
    Code.CAPACITY_EXCEEDED: "Capacity exceeded",
    Code.RATE_LIMITED: "Rate limit exceeded",
    Code.UNAVAILABLE: "Unavailable",
    Code.INTERNAL_ERROR: "Internal server error",
}


class ErrorBody(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The body of every error response. `current_version` comes with a 412, `which` with `store_limit_exceeded`."""

    error: str
    code: Code
    details: str
    request_id: str
    retry_after_ms: int | None = None
    current_version: int | None = None
    which: Literal["value", "total", "keys"] | None = None


class ApiError(Exception):
    """The request is rejected with this response."""

    def __init__(
        self,
        status: int,
        code: Code,
        details: str,
        *,
        retry_after_ms: int | None = None,
        headers: dict[str, str] | None = None,
        current_version: int | None = None,
        which: Literal["value", "total", "keys"] | None = None,
    ) -> None:
        super().__init__(details)
        self.status = status
        self.code = code
        self.details = details
        self.retry_after_ms = retry_after_ms
        self._headers = headers or {}
        self._current_version = current_version
        self._which = which

    def body(self, *, request_id: str) -> bytes:
        return msgspec.json.encode(
            ErrorBody(
                error=_TITLES[self.code],
                code=self.code,
                details=self.details,
                request_id=request_id,
                retry_after_ms=self.retry_after_ms,
                current_version=self._current_version,
                which=self._which,
            )
        )

    def headers(self, *, request_id: str) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "X-Request-Id": request_id, **self._headers}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if self.retry_after_ms is not None and self.status in (429, 503):
            # In whole seconds, rounded up.
            headers["Retry-After"] = str(-(-self.retry_after_ms // 1000))
        return headers


def new_request_id() -> str:
    """The time first: ids in the order of the history make a lookup by id in it cheap."""
    return f"req_{time.time_ns() // 1_000_000:012x}{_random_digits()}"


# Random digits are drawn in advance: a system call for each request releases the GIL, and under load another thread
# takes it.
_random_pool: list[str] = []
os.register_at_fork(after_in_child=_random_pool.clear)


def _random_digits() -> str:
    try:
        return _random_pool.pop()
    except IndexError:
        digits = token_hex(10 * 256)
        _random_pool.extend(digits[start : start + 20] for start in range(20, len(digits), 20))
        return digits[:20]


def authentication_required() -> ApiError:
    return ApiError(401, Code.AUTHENTICATION_REQUIRED, "Send the header 'Authorization: Bearer <token>'.")


def authentication_failed() -> ApiError:
    """One message for unknown, revoked and expired tokens, so that it does not reveal which."""
    return ApiError(
        401,
        Code.AUTHENTICATION_FAILED,
        "This token is unknown, revoked or expired. Ask an admin of the team for a new one.",
    )


def scope_missing(scope: str) -> ApiError:
    return ApiError(403, Code.FORBIDDEN, f"The token lacks the scope '{scope}'.")


def name_not_allowed(name: str) -> ApiError:
    return ApiError(403, Code.FORBIDDEN, f"The name '{name}' is outside the prefixes of the token. Use another token.")


def invalid_input(status: int, details: str) -> ApiError:
    return ApiError(status, Code.INVALID_INPUT, details)


def overloaded() -> ApiError:
    return ApiError(
        503,
        Code.UNAVAILABLE,
        "The server has too many requests in progress. Try again after Retry-After.",
        retry_after_ms=RETRY_AFTER_SECONDS * 1000,
    )


def unavailable() -> ApiError:
    return ApiError(
        503,
        Code.UNAVAILABLE,
        "The database cannot be reached. Try again after Retry-After; with an Idempotency-Key a retried acquire gets "
        "the same lease.",
        retry_after_ms=RETRY_AFTER_SECONDS * 1000,
    )


def internal_error() -> ApiError:
    return ApiError(500, Code.INTERNAL_ERROR, "The server failed. Search its log for the request id.")


def unreachable(verdict: str) -> NoReturn:
    """Ends a dispatch over verdicts: the statement returns no others."""
    raise AssertionError(f"unexpected verdict {verdict!r}")
