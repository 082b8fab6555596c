"""What can go wrong: the API's error codes, each an exception, and what the client finds out by itself."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from octo.answers import Delayed, Held


class Code(str, Enum):
    """The stable codes of the API."""

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


class OctoError(Exception):
    """Everything this package raises on purpose. `code` is what `--json` shows."""

    code = "error"


class ConfigurationProblem(OctoError):
    """The address or the token cannot be used; the message says what to do."""

    code = "configuration"


class Unreachable(OctoError):
    """No answer came. `may_have_arrived` is False if the server cannot have seen the request."""

    code = "unreachable"

    def __init__(self, message: str, *, may_have_arrived: bool = True) -> None:
        super().__init__(message)
        self.may_have_arrived = may_have_arrived


class ApiError(OctoError):
    """The server refused. `details` tells what to do, `request_id` leads to its log."""

    def __init__(
        self,
        details: str,
        *,
        status: int,
        title: str = "",
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(details)
        self.details = details
        self.status = status
        self.title = title
        self.request_id = request_id
        self.retry_after = retry_after
        # Whether an earlier attempt of the same request may have been carried out.
        self.repeated = False


class AuthenticationRequired(ApiError):
    code = Code.AUTHENTICATION_REQUIRED.value


class AuthenticationFailed(ApiError):
    code = Code.AUTHENTICATION_FAILED.value


class Forbidden(ApiError):
    code = Code.FORBIDDEN.value


class InvalidInput(ApiError):
    code = Code.INVALID_INPUT.value


class InvalidTtl(ApiError):
    code = Code.INVALID_TTL.value


class InvalidLockName(ApiError):
    code = Code.INVALID_LOCK_NAME.value


class LeaseNotCurrent(ApiError):
    code = Code.LEASE_NOT_CURRENT.value


class NotFound(ApiError):
    code = Code.NOT_FOUND.value


class SessionExpired(ApiError):
    code = Code.SESSION_EXPIRED.value


class PositionExpired(ApiError):
    code = Code.POSITION_EXPIRED.value


class Conflict(ApiError):
    code = Code.CONFLICT.value


class LockLimitExceeded(ApiError):
    code = Code.LOCK_LIMIT_EXCEEDED.value


class RateLimited(ApiError):
    code = Code.RATE_LIMITED.value


class Unavailable(ApiError):
    code = Code.UNAVAILABLE.value


class InternalError(ApiError):
    code = Code.INTERNAL_ERROR.value


class LockHeld(OctoError):
    """Somebody else has it; `held` says who, as far as the server tells. None where several names were asked for."""

    code = "held"

    def __init__(self, message: str, *, name: str, held: Held | None = None, blocked_by: tuple[Held, ...] = ()) -> None:
        super().__init__(message)
        self.name = name
        self.held = held
        self.blocked_by = blocked_by


class LockDelayed(LockHeld):
    """Nobody has it, but its last holder asked that it stay closed for a while."""

    code = "delayed"

    def __init__(self, message: str, *, name: str, delayed: Delayed) -> None:
        super().__init__(message, name=name)
        self.delayed = delayed


class WaitedTooLong(LockHeld):
    """It was waited for as long as was asked, and somebody else still has it."""

    code = "waited_too_long"


class LeaseOver(OctoError):
    """The block ran under a lease that it may not have had all the time. Do not trust what it did to be exclusive."""

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class LeaseLost(LeaseOver):
    """The server said so: the lease is over, and somebody else may have the lock."""

    code = "lease_lost"


class LeaseUncertain(LeaseOver):
    """The server could not be asked until the lease had to be taken for over."""

    code = "lease_uncertain"


_BY_CODE: dict[str, type[ApiError]] = {kind.code: kind for kind in ApiError.__subclasses__()}
# For servers that speak of errors in other words.
_BY_STATUS: dict[int, type[ApiError]] = {
    401: AuthenticationFailed,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: SessionExpired,
    429: RateLimited,
    503: Unavailable,
}


def from_answer(*, status: int, body: Any, retry_after: float | None) -> ApiError:
    told: dict[str, Any] = body if isinstance(body, dict) else {}
    kind = _BY_CODE.get(str(told.get("code"))) or _BY_STATUS.get(status)
    if kind is None:
        kind = InternalError if status >= 500 else InvalidInput
    if isinstance(told.get("retry_after_ms"), int):
        retry_after = told["retry_after_ms"] / 1000
    title = str(told.get("error") or f"HTTP {status}")
    return kind(
        str(told.get("details") or title),
        status=status,
        title=title,
        request_id=told.get("request_id"),
        retry_after=retry_after,
    )
