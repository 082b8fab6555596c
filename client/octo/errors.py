"""The API's error codes, each an exception, and the failures that the client detects itself."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from octo.models import Holder, LockDelay


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
    RUN_DRAINING = "run_draining"
    STORE_LIMIT_EXCEEDED = "store_limit_exceeded"
    CONFLICT = "conflict"
    LOCK_LIMIT_EXCEEDED = "lock_limit_exceeded"
    CAPACITY_EXCEEDED = "capacity_exceeded"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    INTERNAL_ERROR = "internal_error"


class OctoError(Exception):
    """Base of every exception that this package raises. `code` is what `--json` shows."""

    code = "error"

    def __reduce__(self) -> tuple[Any, ...]:
        """Celery, multiprocessing and others pickle exceptions; these have arguments by keyword."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[OctoError], arguments: tuple[Any, ...], state: dict[str, Any]) -> OctoError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(state)
    return error


class ConfigurationError(OctoError):
    """The address or the token cannot be used; the message says what to do."""

    code = "configuration"


class TransportError(OctoError):
    """No answer of the API came: nothing at all, or something that the API would not say, such as a proxy's page.

    `maybe_sent` is False if the server cannot have seen the request."""

    code = "unreachable"

    def __init__(self, message: str, *, maybe_sent: bool = True) -> None:
        super().__init__(message)
        self.maybe_sent = maybe_sent


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
        # Of a refused compare-and-swap, and of a limit of the key-value store: value, total or keys.
        self.current_version: int | None = None
        self.which: str | None = None
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


class RunDraining(ApiError):
    code = Code.RUN_DRAINING.value


class StoreLimitExceeded(ApiError):
    code = Code.STORE_LIMIT_EXCEEDED.value


class Conflict(ApiError):
    code = Code.CONFLICT.value


class VersionMismatch(Conflict):
    """A compare-and-swap expected another version; `current_version` is the one there is, 0 if there is none."""


class LockLimitExceeded(ApiError):
    code = Code.LOCK_LIMIT_EXCEEDED.value


class CapacityExceeded(ApiError):
    code = Code.CAPACITY_EXCEEDED.value


class RateLimited(ApiError):
    code = Code.RATE_LIMITED.value


class Unavailable(ApiError):
    code = Code.UNAVAILABLE.value


class InternalError(ApiError):
    code = Code.INTERNAL_ERROR.value


class LockHeld(OctoError):
    """Another holder has the lock. `held` describes it, `blocked_by` every lease that stands in the way."""

    code = "held"

    def __init__(
        self, message: str, *, name: str, held: Holder | None = None, blocked_by: tuple[Holder, ...] = ()
    ) -> None:
        super().__init__(message)
        self.name = name
        self.held = held
        self.blocked_by = blocked_by


class LockDelayed(LockHeld):
    """The lock is free, but its last holder asked that it stay closed for a while, or an operator has frozen it."""

    code = "delayed"

    def __init__(self, message: str, *, name: str, delayed: LockDelay) -> None:
        super().__init__(message, name=name)
        self.delayed = delayed


class LockTimeout(LockHeld):
    """The wait timed out, and another holder still has the lock."""

    code = "waited_too_long"


class LeaseEnded(OctoError):
    """The block ran under a lease that it may not have had all the time. Do not trust what it did to be exclusive."""

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class LeaseLost(LeaseEnded):
    """The server said so: the lease is over, and the lock may have another holder."""

    code = "lease_lost"


class LeaseUncertain(LeaseEnded):
    """The lease could not be renewed before its deadline, so it must be taken for over."""

    code = "lease_uncertain"


_BY_CODE: dict[str, type[ApiError]] = {kind.code: kind for kind in ApiError.__subclasses__()}


def from_body(*, status: int, body: Any, retry_after: float | None = None) -> ApiError | None:
    """The exception for an error body of the API; None if it is not one."""
    if not isinstance(body, dict) or not all(
        isinstance(body.get(field), str) for field in ("error", "code", "details")
    ):
        return None
    if isinstance(body.get("retry_after_ms"), int):
        retry_after = body["retry_after_ms"] / 1000
    request_id = body.get("request_id")
    kind = VersionMismatch if status == 412 else _BY_CODE.get(body["code"], ApiError)
    problem = kind(
        body["details"],
        status=status,
        title=body["error"],
        request_id=request_id if isinstance(request_id, str) else None,
        retry_after=retry_after,
    )
    problem.code = body["code"]
    if isinstance(body.get("current_version"), int):
        problem.current_version = body["current_version"]
    if isinstance(body.get("which"), str):
        problem.which = body["which"]
    return problem
