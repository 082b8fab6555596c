"""Errors in the contract's shape: a stable code, a title, and details that tell the reader what to do.

Needs neither Django nor a database, so that it works when nothing else does.
"""

import os
import time
from enum import StrEnum
from secrets import token_hex
from typing import NoReturn

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
    LOCK_LIMIT_EXCEEDED = "lock_limit_exceeded"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    INTERNAL_ERROR = "internal_error"


_TITLES = {
    Code.AUTHENTICATION_REQUIRED: "Authentication required",
    Code.AUTHENTICATION_FAILED: "Authentication failed",
    Code.FORBIDDEN: "Forbidden",
    Code.INVALID_INPUT: "Invalid input",
    Code.INVALID_TTL: "Invalid TTL",
    Code.INVALID_LOCK_NAME: "Invalid lock name",
    Code.LEASE_NOT_CURRENT: "Lease not current",
    Code.NOT_FOUND: "Not found",
    Code.SESSION_EXPIRED: "Session expired",
    Code.POSITION_EXPIRED: "Position expired",
    Code.CONFLICT: "Conflict",
    Code.LOCK_LIMIT_EXCEEDED: "Lock limit exceeded",
    Code.RATE_LIMITED: "Too many requests",
    Code.UNAVAILABLE: "Unavailable",
    Code.INTERNAL_ERROR: "Internal error",
}


class ErrorBody(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What every failed request is answered with."""

    error: str
    code: Code
    details: str
    request_id: str
    retry_after_ms: int | None = None


class ApiError(Exception):
    """The request is refused; this is what its sender is told."""

    def __init__(
        self,
        status: int,
        code: Code,
        details: str,
        *,
        retry_after_ms: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(details)
        self.status = status
        self.code = code
        self.details = details
        self.retry_after_ms = retry_after_ms
        self._headers = headers or {}

    def body(self, *, request_id: str) -> bytes:
        return msgspec.json.encode(
            ErrorBody(
                error=_TITLES[self.code],
                code=self.code,
                details=self.details,
                request_id=request_id,
                retry_after_ms=self.retry_after_ms,
            )
        )

    def headers(self, *, request_id: str) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "X-Request-Id": request_id, **self._headers}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if self.retry_after_ms is not None and self.status in (429, 503):
            # The header knows whole seconds only.
            headers["Retry-After"] = str(-(-self.retry_after_ms // 1000))
        return headers


def new_request_id() -> str:
    """The time first: ids in the order of the history make a lookup by id in it cheap."""
    return f"req_{time.time_ns() // 1_000_000:012x}{_drawn()}"


# Drawn in advance: to ask the kernel for each lets go of the interpreter, and under load another thread takes it.
_supply: list[str] = []
os.register_at_fork(after_in_child=_supply.clear)


def _drawn() -> str:
    try:
        return _supply.pop()
    except IndexError:
        digits = token_hex(10 * 256)
        _supply.extend(digits[start : start + 20] for start in range(20, len(digits), 20))
        return digits[:20]


def authentication_required() -> ApiError:
    return ApiError(401, Code.AUTHENTICATION_REQUIRED, "Send the header 'Authorization: Bearer <token>'.")


def authentication_failed() -> ApiError:
    """One message for every way a token can be wrong."""
    return ApiError(
        401,
        Code.AUTHENTICATION_FAILED,
        "This token is unknown, revoked or expired. Ask an admin of the team for a new one.",
    )


def scope_missing(scope: str) -> ApiError:
    return ApiError(403, Code.FORBIDDEN, f"The token lacks the scope '{scope}'.")


def name_not_allowed(name: str) -> ApiError:
    return ApiError(403, Code.FORBIDDEN, f"The name '{name}' is outside the prefixes that the token may touch.")


def invalid_input(status: int, details: str) -> ApiError:
    return ApiError(status, Code.INVALID_INPUT, details)


def overloaded() -> ApiError:
    return ApiError(
        503,
        Code.UNAVAILABLE,
        "Too many requests are waiting already. Try again in a moment.",
        retry_after_ms=RETRY_AFTER_SECONDS * 1000,
    )


def unavailable() -> ApiError:
    return ApiError(
        503,
        Code.UNAVAILABLE,
        "The database cannot be reached. Try again; an Idempotency-Key makes sure that a lease is not taken twice.",
        retry_after_ms=RETRY_AFTER_SECONDS * 1000,
    )


def internal_error() -> ApiError:
    return ApiError(500, Code.INTERNAL_ERROR, "Something went wrong here. The request id leads to it in the logs.")


def unreachable(verdict: str) -> NoReturn:
    """For the end of a dispatch over verdicts that the statement cannot give."""
    raise AssertionError(f"unexpected verdict {verdict!r}")
