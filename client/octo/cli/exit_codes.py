"""How a command ends, the same everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from octo import errors


class ExitCode(IntEnum):
    DONE = 0
    OTHER = 1
    USAGE = 2
    NOT_FOUND = 3
    HELD = 4
    ENVIRONMENT = 5
    NOT_AUTHORISED = 7
    LEASE_LOST = 8
    LOCK_TIMEOUT = 124


class LeaseNotSaved(errors.OctoError):
    """This shell has not acquired the lock."""

    code = "not_remembered"


class UsageError(errors.OctoError):
    """The command line is wrong."""

    code = "usage"

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage


class Blocked(errors.OctoError):
    """The lock policy does not allow the change."""

    code = "blocked"

    def __init__(self, message: str, *, lines: Sequence[str] = (), facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.lines = lines
        self.facts = facts or {}


# The first match counts.
_EXIT_CODES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (errors.LockTimeout, ExitCode.LOCK_TIMEOUT),
    (errors.LockHeld, ExitCode.HELD),
    (Blocked, ExitCode.HELD),
    (errors.VersionMismatch, ExitCode.HELD),
    (errors.LeaseEnded, ExitCode.LEASE_LOST),
    (errors.LeaseNotCurrent, ExitCode.LEASE_LOST),
    (errors.NotFound, ExitCode.NOT_FOUND),
    (errors.SessionExpired, ExitCode.NOT_FOUND),
    (LeaseNotSaved, ExitCode.NOT_FOUND),
    (errors.AuthenticationRequired, ExitCode.NOT_AUTHORISED),
    (errors.AuthenticationFailed, ExitCode.NOT_AUTHORISED),
    (errors.Forbidden, ExitCode.NOT_AUTHORISED),
    (errors.InvalidInput, ExitCode.USAGE),
    (errors.InvalidTtl, ExitCode.USAGE),
    (errors.InvalidLockName, ExitCode.USAGE),
    (UsageError, ExitCode.USAGE),
    (errors.ConfigurationError, ExitCode.ENVIRONMENT),
    (errors.TransportError, ExitCode.ENVIRONMENT),
    (errors.Unavailable, ExitCode.ENVIRONMENT),
    (errors.RateLimited, ExitCode.ENVIRONMENT),
    (errors.InternalError, ExitCode.ENVIRONMENT),
)


def exit_code_of(problem: BaseException) -> ExitCode:
    return next((code for kind, code in _EXIT_CODES if isinstance(problem, kind)), ExitCode.OTHER)
