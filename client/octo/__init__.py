"""One owner per job: leases over HTTP, for Python and the shell.

with Client() as client, client.lock("deploy-main", ttl=60, wait=30) as lease:
    deploy(fencing_token=lease.fencing_token)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octo.async_client import AsyncClient
    from octo.async_leases import (
        AsyncElection,
        AsyncLease,
        AsyncLeases,
        AsyncLock,
        AsyncSemaphore,
        AsyncSession,
        AsyncTerm,
    )
    from octo.async_runs import AsyncActor, AsyncRun, AsyncStore
    from octo.client import Client
    from octo.errors import (
        ApiError,
        AuthenticationFailed,
        AuthenticationRequired,
        CapacityExceeded,
        Code,
        ConfigurationError,
        Conflict,
        Forbidden,
        InternalError,
        InvalidInput,
        InvalidLockName,
        InvalidTtl,
        LeaseEnded,
        LeaseLost,
        LeaseNotCurrent,
        LeaseUncertain,
        LockDelayed,
        LockHeld,
        LockLimitExceeded,
        LockTimeout,
        NotFound,
        OctoError,
        PositionExpired,
        RateLimited,
        RunDraining,
        SessionExpired,
        StoreLimitExceeded,
        TransportError,
        Unavailable,
        VersionMismatch,
    )  # fmt: skip
    from octo.lease import LeaseEvent, Status
    from octo.leases import Election, Lease, Leases, Lock, Semaphore, Session, Term
    from octo.models import (
        ElectionInfo,
        Entry,
        EntryInfo,
        Freeze,
        Holder,
        LockCheck,
        LockDelay,
        LockInfo,
        NameConflict,
        NewToken,
        PreviousHolder,
        RunInfo,
        SessionInfo,
        TokenInfo,
        WatchEvent,
    )  # fmt: skip
    from octo.runs import Actor, Run, Store

__version__ = "0.2.0"

# Imported when first used: the command line starts faster than the whole package loads.
_MODULES = ("errors", "models", "lease", "leases", "runs", "client", "async_leases", "async_runs", "async_client")


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name[:1].isupper():
        for module in _MODULES:
            if (found := getattr(import_module(f"octo.{module}"), name, None)) is not None:
                return found
    raise AttributeError(f"module 'octo' has no attribute {name!r}")
