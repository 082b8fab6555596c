"""One owner per job: leases over HTTP, for Python and the shell.

with Client() as client, client.lock("deploy-main", ttl=60, wait=30) as lease:
    deploy(fencing_token=lease.fencing_token)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from octo.user_agent import VERSION

if TYPE_CHECKING:
    from octo.answers import Delayed, Held, Identity, Lock, NewToken, Released, SessionInfo, WatchEvent
    from octo.async_client import AsyncClient
    from octo.async_leases import AsyncLease, AsyncLeases, AsyncSession
    from octo.client import Client
    from octo.errors import (
        ApiError,
        AuthenticationFailed,
        AuthenticationRequired,
        Code,
        ConfigurationProblem,
        Conflict,
        Forbidden,
        InternalError,
        InvalidInput,
        InvalidLockName,
        InvalidTtl,
        LeaseLost,
        LeaseNotCurrent,
        LeaseOver,
        LeaseUncertain,
        LockDelayed,
        LockHeld,
        LockLimitExceeded,
        NotFound,
        OctoError,
        PositionExpired,
        RateLimited,
        SessionExpired,
        Unavailable,
        Unreachable,
        WaitedTooLong,
    )
    from octo.leases import Lease, Leases
    from octo.sessions import Session
    from octo.tenure import Happening, Status

__version__ = VERSION

# Imported when first used: the command line starts faster than the whole package loads.
_ANSWERS = ("Delayed", "Held", "Identity", "Lock", "NewToken", "Released", "SessionInfo", "WatchEvent")
_ERRORS = (
    "ApiError", "AuthenticationFailed", "AuthenticationRequired", "Code", "ConfigurationProblem", "Conflict",
    "Forbidden", "InternalError", "InvalidInput", "InvalidLockName", "InvalidTtl", "LeaseLost", "LeaseNotCurrent",
    "LeaseOver", "LeaseUncertain", "LockDelayed", "LockHeld", "LockLimitExceeded", "NotFound", "OctoError",
    "PositionExpired", "RateLimited", "SessionExpired", "Unavailable", "Unreachable", "WaitedTooLong",
)  # fmt: skip
_HOMES = {
    **dict.fromkeys(_ANSWERS, "octo.answers"),
    **dict.fromkeys(_ERRORS, "octo.errors"),
    "AsyncClient": "octo.async_client",
    "AsyncLease": "octo.async_leases",
    "AsyncLeases": "octo.async_leases",
    "AsyncSession": "octo.async_leases",
    "Client": "octo.client",
    "Lease": "octo.leases",
    "Leases": "octo.leases",
    "Session": "octo.sessions",
    "Happening": "octo.tenure",
    "Status": "octo.tenure",
}

__all__ = [  # noqa: PLE0604
    "__version__",
    *_HOMES,
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'octo' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
