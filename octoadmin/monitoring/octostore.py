"""OctoStore's answers for administrators: /admin/status, and /metrics in JSON.

OctoStore's administrator sees all of a server; here a token with the scope locks:force sees its own space. Users are
the valid tokens of the space, and listed only to a token that may manage them, as GET /tokens does.
"""

import resource
import time
from collections.abc import Iterable
from typing import Any

from django.db import connection
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse, JsonResponse

from locks.api.authentication import TokenAuthentication
from locks.api.base_view import to_error_response
from locks.api.errors import scope_missing
from locks.api.limits import limits
from locks.api.run_names import show_names, visible_run_names
from locks.api.views.tokens import is_within
from locks.engine import requests, results
from locks.engine.execution import run
from locks.engine.operations import listing
from locks.metrics import all_processes
from locks.models import Scope, Token
from locks.models.stats import StatsMinute
from octoadmin.monitoring.read_only import STARTED_AT, read_only

MAX_LISTED = 10_000
# OctoStore's names of what is measured here, by operation of the batcher. Others have no times of their own.
_OPERATIONS = {"acquire": "acquire", "release": "release", "renew": "renew", "status": "inspect"}
_UNMEASURED = ("list", "auth", "election")
_QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}


def wants_json(request: HttpRequest) -> bool:
    return request.get_preferred_type(["text/plain", "application/json"]) == "application/json"


@read_only
def admin_status(request: HttpRequest) -> HttpResponse:
    try:
        token = _operator(request)
        locks = _locks(token)
    except Exception as error:
        return to_error_response(error, {"request": request})
    body = {
        "healthy": True,
        **_counters(token, active_locks=locks[0].total),
        **_totals(token),
        "locks": [_lock(row) for row in locks if row.name is not None],
        "users": list(_users(token)) if Scope.TOKENS_MANAGE in token.scopes else [],
    }
    return _answer(body)


def json_metrics(request: HttpRequest) -> HttpResponse:
    try:
        token = _operator(request)
        active_locks = _locks(token, limit=1)[0].total
    except Exception as error:
        return to_error_response(error, {"request": request})
    registry = list(all_processes().collect())
    counters = _counters(token, active_locks=active_locks)
    total = int(_sum(registry, "octoadmin_requests_total"))
    totals = _totals(token, with_expirations=True)
    return _answer(
        {
            **counters,
            "total_requests": total,
            "requests_per_second": total / max(1, counters["uptime_seconds"]),
            "endpoints": {name: _endpoint(registry, operation) for name, operation in _OPERATIONS.items()}
            | dict.fromkeys(_UNMEASURED, _endpoint([], "")),
            "lock_store": {**totals, "cache_hits": 0, "cache_misses": 0},
            "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
    )


def _answer(body: dict[str, Any]) -> JsonResponse:
    return JsonResponse(body, headers={"Cache-Control": "no-store"})


def _operator(request: HttpRequest) -> Token:
    """Raises ApiError."""
    _user, token = TokenAuthentication().authenticate(request)  # type: ignore[arg-type]  # it reads META only
    if Scope.LOCKS_FORCE not in token.scopes:
        raise scope_missing(Scope.LOCKS_FORCE)
    if Scope.LOCKS_READ not in token.scopes:
        raise scope_missing(Scope.LOCKS_READ)
    return token


def _locks(token: Token, *, limit: int = MAX_LISTED) -> list[results.Listed]:
    """What GET /locks shows this token, for the same price. At least one row, which has the total."""
    digest = bytes(token.digest)
    names = visible_run_names(digest)
    rows = run(listing(requests.Listing(digest=digest.hex(), limit=limit, visible_run_names=names)))
    limits.charge_rows(digest, len(rows))
    show_names(rows, digest)
    return rows


def _lock(row: results.Listed) -> dict[str, Any]:
    assert row.expires_at is not None
    return {
        "name": row.name,
        "holder_username": row.owner,
        "metadata": row.metadata,
        "fencing_token": row.fencing_token,
        "expires_at": row.expires_at,
        "ttl_remaining_seconds": max(0, int((row.expires_at - row.now).total_seconds())),
    }


def _users(token: Token) -> Iterable[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT octo_holder_id(public_id, NULL), name, created_at, prefixes FROM octo_token"
            " WHERE id = ANY (SELECT token_id FROM octo_live_token_v2 WHERE space_id = %s) ORDER BY id LIMIT %s",
            [token.space_id, MAX_LISTED],
        )
        for user_id, name, created_at, prefixes in cursor.fetchall():
            if is_within(token, prefixes):
                yield {"id": user_id, "github_username": name, "created_at": created_at}


def _counters(token: Token, *, active_locks: int) -> dict[str, int]:
    return {
        "uptime_seconds": int(time.monotonic() - STARTED_AT),
        "active_locks": active_locks,
        "total_users": Token.objects.valid().filter(space_id=token.space_id).count(),
    }


def _totals(token: Token, *, with_expirations: bool = False) -> dict[str, int]:
    """Since the oldest statistics that are kept."""
    fields = {"total_acquires": "acquired", "total_releases": "released", "total_expirations": "expired"}
    if not with_expirations:
        del fields["total_expirations"]
    sums = {name: Sum(column, default=0) for name, column in fields.items()}
    return dict(StatsMinute.objects.filter(space_id=token.space_id).aggregate(**sums))


def _samples(registry: Iterable[Any], name: str, operation: str | None = None) -> Iterable[Any]:
    return (
        sample
        for family in registry
        for sample in family.samples
        if sample.name == name and (operation is None or sample.labels.get("operation") == operation)
    )


def _sum(registry: Iterable[Any], name: str, operation: str | None = None) -> float:
    return float(sum(sample.value for sample in _samples(registry, name, operation)))


def _endpoint(registry: Iterable[Any], operation: str) -> dict[str, Any]:
    """Times of the statements, by the upper bounds of their buckets. Errors are not counted by operation."""
    name = "octoadmin_batch_statement_seconds"
    samples = _samples(registry, f"{name}_bucket", operation)
    buckets = sorted((float(sample.labels["le"]), sample.value) for sample in samples)
    statements = buckets[-1][1] if buckets else 0.0
    average = _sum(registry, f"{name}_sum", operation) / statements if statements else 0.0

    def bound(share: float) -> float:
        highest = max((limit for limit, _count in buckets if limit != float("inf")), default=0.0)
        return next((min(limit, highest) for limit, count in buckets if count and count >= share * statements), 0.0)

    return {
        "count": int(_sum(registry, "octoadmin_batch_size_sum", operation)),
        "avg_ms": f"{average * 1000:.2f}",
        **{field: f"{bound(share) * 1000:.2f}" for field, share in _QUANTILES.items()},
        "errors": 0,
        "min_ms": 0,
        "max_ms": round(bound(1.0) * 1000),
    }
