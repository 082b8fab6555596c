"""How a command ends, the same everywhere."""

from __future__ import annotations

from enum import IntEnum

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
    WAITED_TOO_LONG = 124


class NotRemembered(errors.OctoError):
    """The state file knows no lease of this lock."""

    code = "not_remembered"


class UsageProblem(errors.OctoError):
    """The command was typed in a way that makes no sense."""

    code = "usage"


# The first that fits counts.
_BY_PROBLEM: tuple[tuple[type[Exception], ExitCode], ...] = (
    (errors.WaitedTooLong, ExitCode.WAITED_TOO_LONG),
    (errors.LockHeld, ExitCode.HELD),
    (errors.LeaseOver, ExitCode.LEASE_LOST),
    (errors.LeaseNotCurrent, ExitCode.LEASE_LOST),
    (errors.NotFound, ExitCode.NOT_FOUND),
    (errors.SessionExpired, ExitCode.NOT_FOUND),
    (NotRemembered, ExitCode.NOT_FOUND),
    (errors.AuthenticationRequired, ExitCode.NOT_AUTHORISED),
    (errors.AuthenticationFailed, ExitCode.NOT_AUTHORISED),
    (errors.Forbidden, ExitCode.NOT_AUTHORISED),
    (errors.InvalidInput, ExitCode.USAGE),
    (errors.InvalidTtl, ExitCode.USAGE),
    (errors.InvalidLockName, ExitCode.USAGE),
    (UsageProblem, ExitCode.USAGE),
    (errors.ConfigurationProblem, ExitCode.ENVIRONMENT),
    (errors.Unreachable, ExitCode.ENVIRONMENT),
    (errors.Unavailable, ExitCode.ENVIRONMENT),
    (errors.RateLimited, ExitCode.ENVIRONMENT),
    (errors.InternalError, ExitCode.ENVIRONMENT),
)


def exit_code_of(problem: BaseException) -> ExitCode:
    return next((code for kind, code in _BY_PROBLEM if isinstance(problem, kind)), ExitCode.OTHER)
