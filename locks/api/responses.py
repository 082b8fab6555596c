"""Responses of the API for the engine's results, or errors."""

from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from locks.api import schemas
from locks.api.errors import (
    ApiError,
    Code,
    authentication_failed,
    invalid_input,
    name_not_allowed,
    scope_missing,
    unreachable,
)
from locks.api.parsing import invalid_ttl
from locks.engine import results
from locks.engine.verdicts import Verdict
from locks.models.space import LockPolicy
from locks.runs import kv

# Bounds of retry_after_ms for a held lock: not later than its expiry, and often enough to notice a release.
MAX_RETRY_MS = 5_000
MIN_RETRY_MS = 100
MAX_FROZEN_RETRY_MS = 30_000
MAX_BLOCKED_BY = 100
# Checked first, because most requests succeed.
_SUCCESS = frozenset({Verdict.ACQUIRED, Verdict.RECOGNISED, Verdict.RENEWED, Verdict.RELEASED})
# A session survives a lost keepalive. lock_state.sql has the same number.
KEEPALIVES_PER_TTL = 3

Granted = TypeVar("Granted", bound=schemas.Lease)
AnyOutcome: TypeAlias = (
    results.Acquired
    | results.Claimed
    | results.AcquireAllRow
    | results.Renewed
    | results.Released
    | results.ForceReleased
    | results.Inspected
    | results.Checked
    | results.AclSet
    | results.Listed
    | results.SessionRow
    | results.KeptAlive
    | results.SessionEnded
    | kv.KvFound
    | kv.KvWritten
    | kv.KvListed
)


def _ms(later: datetime, now: datetime) -> int:
    return max(0, int((later - now).total_seconds() * 1000))


def renew_after_ms(expires_at: datetime, now: datetime) -> int:
    return _ms(expires_at, now) // 2


def retry_after_ms(available_at: datetime, now: datetime) -> int:
    return max(MIN_RETRY_MS, min(MAX_RETRY_MS, _ms(available_at, now)))


_ERRORS: dict[str, tuple[int, Code, str]] = {
    Verdict.SPACE_FULL: (
        403,
        Code.LOCK_LIMIT_EXCEEDED,
        "The space is at its limit of live locks, names or sessions (10,000). Release some, or ask an admin for more.",
    ),
    Verdict.HISTORY_FULL: (
        403,
        Code.LOCK_LIMIT_EXCEEDED,
        "The space is at its limit of events. Held leases can be renewed and released. Ask an admin for more.",
    ),
    Verdict.NAMES_OVERLAP: (
        400,
        Code.INVALID_INPUT,
        "Two of the names overlap with each other, so they cannot both be held. Ask for the wider one only.",
    ),
    Verdict.NOT_LISTED: (
        403,
        Code.FORBIDDEN,
        "The access list of the lock does not include this token. Ask its holder, or an operator, to add it.",
    ),
    Verdict.ACL_CONFLICT: (
        409,
        Code.CONFLICT,
        "The lock or your lease has another access list. Leave acl out, or replace it with PUT /locks/{name}/acl.",
    ),
    Verdict.NOT_PERMITTED: (
        403,
        Code.FORBIDDEN,
        "Only the holder of the lock, or a token with the scope 'locks:force', may change its access list.",
    ),
    Verdict.NO_SESSION: (404, Code.NOT_FOUND, "There is no such session, or it belongs to another token."),
    Verdict.SESSION_OVER: (
        410,
        Code.SESSION_EXPIRED,
        "The session and its leases have ended. Stop the work, and open a new session.",
    ),
    Verdict.IDEMPOTENCY_CONFLICT: (
        409,
        Code.CONFLICT,
        "This Idempotency-Key was used for another request. Use a new key for a new request.",
    ),
    Verdict.RUN_DRAINING: (
        409,
        Code.RUN_DRAINING,
        "The run is draining: renew and release what you hold, and finish. It grants no new leases.",
    ),
    Verdict.NO_ACTOR: (
        403,
        Code.FORBIDDEN,
        "Only the token of a run's actor has a store. Start a run, and use the token that its actor gets.",
    ),
    Verdict.NO_LAYER: (
        404,
        Code.NOT_FOUND,
        "There is no such layer below yours, or it was created without read_down.",
    ),
    Verdict.FENCING_MISMATCH: (
        409,
        Code.CONFLICT,
        "The lock is now held under another fencing token. Inspect it again before you force-release it.",
    ),
    Verdict.HELD_BY_ANOTHER: (
        400,
        Code.LEASE_NOT_CURRENT,
        "The lock is held under another lease. Stop the work: it has another owner.",
    ),
    Verdict.MAX_HOLD_REACHED: (
        400,
        Code.LEASE_NOT_CURRENT,
        "The lease has reached the maximum hold of the space. Finish the work, and acquire again.",
    ),
    Verdict.NOT_HELD: (
        404,
        Code.LEASE_NOT_CURRENT,
        "There is no live lease: it was released, has expired, or never existed. Stop the work.",
    ),
}


def raise_api_error(outcome: AnyOutcome, *, scope: str) -> None:
    """Raises the error of a verdict that rejects the request."""
    if outcome.verdict in _SUCCESS:
        return
    match outcome.verdict:
        case Verdict.UNAUTHENTICATED:
            raise authentication_failed()
        case Verdict.SCOPE_MISSING:
            raise scope_missing(scope)
        case Verdict.NAME_NOT_ALLOWED:
            raise name_not_allowed(outcome.name or "")
        case Verdict.TTL_TOO_LONG:
            raise invalid_ttl(getattr(outcome, "max_ttl_seconds", None))
        case Verdict.METADATA_TOO_LONG:
            limit = getattr(outcome, "max_metadata_length", None)
            raise invalid_input(400, f"metadata may have at most {limit} characters in this space.")
    if error := _ERRORS.get(outcome.verdict):
        raise ApiError(*error)


def _granted(message: type[Granted], outcome: results.Acquired | results.Claimed | results.AcquireAllRow) -> Granted:
    assert outcome.lease_id is not None
    assert outcome.owner is not None
    return message(
        name=outcome.name,
        lease_id=outcome.lease_id,
        fencing_token=outcome.fencing_token,
        owner=outcome.owner,
        metadata=outcome.metadata,
        acquired_at=outcome.acquired_at,
        expires_at=outcome.expires_at,
        renew_after_ms=renew_after_ms(outcome.expires_at, outcome.now),
    )


def acquired(
    outcome: results.Acquired, *, waited_ms: int | UnsetType = UNSET, position: int | None = None
) -> schemas.Acquired | schemas.Held | schemas.Delayed:
    raise_api_error(outcome, scope="locks:write")
    match outcome.verdict:
        case Verdict.ACQUIRED | Verdict.RECOGNISED:
            return _granted(schemas.Acquired, outcome)
        case Verdict.HELD:
            blocked_by = _blocked_by(outcome)
            holder = blocked_by[0] if blocked_by else outcome
            assert holder.holder_id is not None
            assert holder.owner is not None
            return schemas.Held(
                name=outcome.name,
                holder_id=holder.holder_id,
                owner=holder.owner,
                metadata=holder.metadata,
                fencing_token=holder.fencing_token,
                acquired_at=holder.acquired_at,
                expires_at=holder.expires_at,
                retry_after_ms=retry_after_ms(holder.expires_at, outcome.now),
                waiters=outcome.waiters,
                waited_ms=waited_ms,
                queue_position=position or UNSET,
                blocked_by=blocked_by or UNSET,
            )
        case Verdict.DELAYED:
            assert outcome.available_at is not None
            return schemas.Delayed(
                name=outcome.name,
                available_at=outcome.available_at,
                lock_delay_seconds=outcome.lock_delay_seconds or 0,
                retry_after_ms=_delay_ms(outcome.available_at, outcome),
                waited_ms=waited_ms,
                queue_position=position or UNSET,
                **_freeze(outcome.freeze),
            )
    unreachable(outcome.verdict)


def _delay_ms(available_at: datetime, outcome: results.Acquired | results.Claimed | results.AcquireAllRow) -> int:
    """A freeze may be lifted before its end, so that is not waited for."""
    remaining = _ms(available_at, outcome.now)
    return remaining if outcome.freeze is None else min(remaining, MAX_FROZEN_RETRY_MS)


def _freeze(freeze: results.Freeze | None) -> dict[str, Any]:
    """The fields of a response that say that the name is frozen."""
    if freeze is None:
        return {}
    return {"frozen": True, "frozen_prefix": freeze["prefix"], "reason": freeze["reason"]}


def _blocked_by(outcome: results.Acquired) -> list[schemas.BlockingLease]:
    """Empty for a plain name."""
    if outcome.blocked_by is None:
        return []
    own: list[Any] = [outcome] if outcome.expires_at is not None and outcome.expires_at > outcome.now else []
    leases = [*own, *outcome.blocked_by][:MAX_BLOCKED_BY]
    return msgspec.convert(leases, list[schemas.BlockingLease], from_attributes=True)


def status_of(message: msgspec.Struct) -> int:
    return 409 if isinstance(message, schemas.Delayed) else 200


def claimed(outcome: results.Claimed) -> schemas.Acquired | schemas.NoneFree | schemas.Delayed:
    raise_api_error(outcome, scope="locks:write")
    match outcome.verdict:
        case Verdict.ACQUIRED | Verdict.RECOGNISED:
            return _granted(schemas.Acquired, outcome)
        case Verdict.HELD:
            available_at = outcome.available_at or outcome.now
            return schemas.NoneFree(retry_after_ms=retry_after_ms(available_at, outcome.now))
        case Verdict.DELAYED:
            assert outcome.available_at is not None
            return schemas.Delayed(
                name=outcome.name,
                available_at=outcome.available_at,
                lock_delay_seconds=0,
                retry_after_ms=_delay_ms(outcome.available_at, outcome),
                **_freeze(outcome.freeze),
            )
    unreachable(outcome.verdict)


def acquired_all(
    rows: list[results.AcquireAllRow], *, waited_ms: int | UnsetType = UNSET, position: int | None = None
) -> schemas.AllAcquired | schemas.AllHeld | schemas.Delayed:
    verdict, now = rows[0].verdict, rows[0].now
    raise_api_error(next((row for row in rows if row.is_allowed is False), rows[0]), scope="locks:write")
    match verdict:
        case Verdict.ACQUIRED | Verdict.RECOGNISED:
            return schemas.AllAcquired(leases=[_granted(schemas.Lease, row) for row in rows])
        case Verdict.DELAYED:
            frozen = max((row for row in rows if row.freeze is not None), key=_available_at)
            return schemas.Delayed(
                name=frozen.name,
                available_at=_available_at(frozen),
                lock_delay_seconds=0,
                retry_after_ms=_delay_ms(_available_at(frozen), frozen),
                waited_ms=waited_ms,
                queue_position=position or UNSET,
                **_freeze(frozen.freeze),
            )
        case Verdict.HELD:
            blocking = [row for row in rows if row.is_blocking]
            overlapping = msgspec.convert(rows[0].blocked_by or [], list[schemas.BlockingLease])
            times = [
                *(row.available_at for row in blocking if row.available_at),
                *(lease.expires_at for lease in overlapping),
                *([rows[0].blocked_until] if rows[0].blocked_until else []),
            ]
            available_at = min(times, default=now)
            return schemas.AllHeld(
                blocked_by=[
                    *(_blocker(row) for row in blocking),
                    *(schemas.Blocker(**msgspec.structs.asdict(lease), available_at=None) for lease in overlapping),
                ][:MAX_BLOCKED_BY],
                retry_after_ms=retry_after_ms(available_at, now),
                waited_ms=waited_ms,
                queue_position=position or UNSET,
            )
    unreachable(verdict)


def _available_at(row: results.AcquireAllRow) -> datetime:
    assert row.available_at is not None
    return row.available_at


def _blocker(row: results.AcquireAllRow) -> schemas.Blocker:
    live = row.expires_at is not None and row.expires_at > row.now
    return schemas.Blocker(
        name=row.name,
        holder_id=row.holder_id if live else None,
        owner=row.owner if live else None,
        metadata=row.metadata if live else None,
        fencing_token=row.fencing_token,
        acquired_at=row.acquired_at if live else None,
        expires_at=row.expires_at if live else None,
        available_at=row.available_at if not live else None,
    )


def renewed(outcome: results.Renewed) -> schemas.Renewed:
    raise_api_error(outcome, scope="locks:write")
    if outcome.verdict != Verdict.RENEWED:
        unreachable(outcome.verdict)
    return schemas.Renewed(
        lease_id=outcome.lease_id,
        fencing_token=outcome.fencing_token,
        expires_at=outcome.expires_at,
        renew_after_ms=renew_after_ms(outcome.expires_at, outcome.now),
    )


def check_released(outcome: results.Released) -> None:
    raise_api_error(outcome, scope="locks:write")
    if outcome.verdict != Verdict.RELEASED:
        unreachable(outcome.verdict)


def force_released(outcome: results.ForceReleased) -> schemas.ForceReleased:
    if outcome.verdict == Verdict.NOT_HELD:
        raise ApiError(404, Code.LEASE_NOT_CURRENT, "The lock is not held: there is nothing to release.")
    raise_api_error(outcome, scope="locks:force")
    previous = msgspec.convert(outcome, schemas.PreviousHolder, from_attributes=True)
    return schemas.ForceReleased(name=outcome.name, previous=previous)


def release_result(outcome: results.Released | results.Renewed) -> schemas.ReleaseResult:
    """An error of the caller fails the whole request; any other fails one lease of many."""
    try:
        raise_api_error(outcome, scope="locks:write")
    except ApiError as error:
        if outcome.verdict in (Verdict.UNAUTHENTICATED, Verdict.SCOPE_MISSING):
            raise
        return schemas.ReleaseResult(
            name=outcome.name, ok=False, lease_id=outcome.lease_id, code=error.code, details=error.details
        )
    return schemas.ReleaseResult(name=outcome.name, ok=True, lease_id=outcome.lease_id)


def renew_result(outcome: results.Renewed) -> schemas.RenewResult:
    result = msgspec.structs.asdict(release_result(outcome))
    if result["ok"]:
        result |= msgspec.structs.asdict(renewed(outcome))
    return schemas.RenewResult(**result)


def lock(state: str, row: results.Inspected | results.Listed) -> schemas.Lock:
    name = row.name or ""
    match state:
        case Verdict.HELD:
            return schemas.Lock(
                name=name,
                status="held",
                owner=row.owner,
                holder_id=row.holder_id,
                metadata=row.metadata,
                fencing_token=row.fencing_token,
                acquired_at=row.acquired_at,
                renewed_at=row.renewed_at,
                expires_at=row.expires_at,
                session_id_present=row.session_id_present,
                waiters=row.waiters,
            )
        case Verdict.DELAYED:
            return schemas.Lock(
                name=name,
                status="delayed",
                fencing_token=row.fencing_token,
                waiters=row.waiters,
                available_at=row.available_at,
            )
        case Verdict.FREE:
            return schemas.Lock(name=name, status="free", fencing_token=row.fencing_token, waiters=row.waiters)
    unreachable(state)


def inspected(outcome: results.Inspected) -> schemas.Lock:
    raise_api_error(outcome, scope="locks:read")
    response = lock(outcome.verdict, outcome)
    if outcome.freeze is not None:
        response.frozen, response.reason = True, outcome.freeze["reason"]
        response.frozen_prefix = outcome.freeze["prefix"]
    if outcome.acl is not None:
        response.acl = schemas.Acl(acquire=outcome.acl)
    if outcome.queue:
        response.in_line = msgspec.convert(outcome.queue, list[schemas.QueueEntry])
    return response


def acl_set(outcome: results.AclSet) -> schemas.AclSet:
    if outcome.verdict == Verdict.UNKNOWN:
        raise ApiError(404, Code.NOT_FOUND, "There is no such lock: the name has never been used.")
    raise_api_error(outcome, scope="locks:write")
    if outcome.verdict != Verdict.CHANGED:
        unreachable(outcome.verdict)
    return schemas.AclSet(name=outcome.name, acl=None if outcome.acl is None else schemas.Acl(acquire=outcome.acl))


def session_opened(outcome: results.SessionRow) -> schemas.SessionOpened:
    raise_api_error(outcome, scope="locks:write")
    assert outcome.session_id is not None
    return schemas.SessionOpened(
        session_id=outcome.session_id,
        expires_at=outcome.expires_at,
        keepalive_interval_secs=outcome.ttl_seconds // KEEPALIVES_PER_TTL,
        ttl_seconds=outcome.ttl_seconds,
    )


def session_kept_alive(outcome: results.KeptAlive) -> schemas.SessionKeptAlive:
    raise_api_error(outcome, scope="locks:write")
    return schemas.SessionKeptAlive(session_id=outcome.session_id, expires_at=outcome.expires_at)


def session(row: results.SessionRow) -> schemas.Session:
    raise_api_error(row, scope="locks:read")
    assert row.session_id is not None
    return schemas.Session(
        session_id=row.session_id,
        user_id=row.user_id,
        owner=row.owner,
        metadata=row.metadata,
        ttl_seconds=row.ttl_seconds,
        created_at=row.created_at,
        kept_alive_at=row.last_keepalive_at,
        expires_at=row.ended_at or row.expires_at,
        lock_count=row.lock_count,
        active=row.active,
    )


def checked(rows: list[results.Checked]) -> schemas.Checked:
    for row in rows:
        raise_api_error(row, scope="locks:read")
    policy = rows[0].policy
    conflicts = [
        schemas.Conflict(
            name=row.name, blocked_by=msgspec.convert(row.blocked_by[:MAX_BLOCKED_BY], list[schemas.BlockingLease])
        )
        for row in rows
        if row.blocked_by
    ]
    missing = [row.name for row in rows if not row.is_covered]
    match policy:
        case LockPolicy.OFF:
            return schemas.Checked(decision="clear", policy="off", conflicts=conflicts, missing=missing)
        case LockPolicy.WARN:
            decision: Literal["warn", "clear"] = "warn" if conflicts else "clear"
            return schemas.Checked(decision=decision, policy="warn", conflicts=conflicts, missing=missing)
        case LockPolicy.REQUIRE:
            return schemas.Checked(
                decision="block" if missing else "clear", policy="require", conflicts=conflicts, missing=missing
            )
    unreachable(str(policy))
