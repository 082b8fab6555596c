"""Endpoints for many locks: claim-next, acquire-all, renew-all, release-all, and the list."""

from collections.abc import Sized

import msgspec
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request

from locks.api import responses, schemas
from locks.api.base_view import LockApiView, json_response, presented
from locks.api.errors import invalid_input
from locks.api.limits import limits
from locks.api.openapi_hooks import IDEMPOTENCY_KEY, OpenApiTypes, describe, query
from locks.api.parsing import (
    MAX_BULK_BODY,
    check_name,
    check_prefix,
    check_ttl,
    decoder,
    query_choice,
    query_cursor,
    query_number,
    query_text,
)
from locks.api.run_names import show_names, stored_name, visible_run_names
from locks.api.usage_counters import usage_counters
from locks.api.waiting import NOT_ACQUIRED, defer_acquire_all
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire_all, claim_next, listing, release, renew
from locks.pagination import Moment, Text, encode

_CLAIM_NEXT = decoder(schemas.ClaimNextBody)
_ACQUIRE_ALL = decoder(schemas.AcquireAllBody)
_RENEW_ALL = decoder(schemas.RenewAllBody)
_RELEASE_ALL = decoder(schemas.ReleaseAllBody)

MAX_TOTAL = 10_000
MAX_PAGE = 1000
# Without a limit: OctoStore's clients do not page.
MAX_UNPAGED = 10_000
SORTS = ("name", "expires_at", "acquired_at")
STATUSES = ("held", "delayed", "all")


class BulkView(LockApiView):
    def charge_names(self, request: Request, names: Sized) -> None:
        limits.charge_names(presented(request).digest, len(names))


class ClaimNextView(BulkView):
    max_body = MAX_BULK_BODY

    @describe(
        "claim_next",
        "Acquire one free lock of a list",
        tag="Many locks",
        scope="locks:write",
        body=schemas.ClaimNextBody,
        responses={200: schemas.Acquired | schemas.NoneFree, 409: schemas.Delayed},
        errors=(404, 409, 410),
        parameters=[IDEMPOTENCY_KEY],
        description=(
            "The first that is free. A name that another request is changing at that moment is passed over, unless "
            "only such names are left. `delayed` (409): none is free, and some that would be are frozen."
        ),
        examples=[OpenApiExample("a backlog", {"names": ["issue-1842", "issue-1843"]}, request_only=True)],
    )
    def post(self, request: Request) -> HttpResponse:
        body = self.body(request, _CLAIM_NEXT)
        self.charge_names(request, body.names)
        claim = requests.ClaimNext(
            names=self.lock_names(request, body.names, to_acquire=True),
            **self.caller(request),
            **self.lease_options(request, body),
        )
        outcome = run(claim_next(claim))
        self.record_use(request, outcome)
        message = responses.claimed(outcome)
        return json_response(message, status=responses.status_of(message))


class AcquireAllView(BulkView):
    @describe(
        "acquire_all",
        "Acquire several locks, all or none",
        tag="Many locks",
        scope="locks:write",
        body=schemas.AcquireAllBody,
        responses={200: schemas.AllAcquired | schemas.AllHeld, 409: schemas.Delayed},
        errors=(404, 409, 410),
        parameters=[IDEMPOTENCY_KEY],
        description="Two such requests cannot deadlock, whatever the order of their names. With `wait_seconds` the "
        "request waits for one name after the other, and keeps its arrival time in each queue, until all are free. "
        "`delayed` (409): one of the names is frozen.",
    )
    def post(self, request: Request) -> HttpResponse:
        body = self.body(request, _ACQUIRE_ALL)
        self.charge_names(request, body.names)
        acquire_request = requests.AcquireAll(
            names=self.lock_names(request, body.names, to_acquire=True),
            **self.caller(request),
            **self.lease_options(request, body),
        )
        rows = run(acquire_all(acquire_request))
        if body.wait_seconds and rows[0].verdict in NOT_ACQUIRED:
            self.record_use(request, rows[0], waits=True)
            return defer_acquire_all(acquire_request, wait_seconds=body.wait_seconds)
        self.record_use(request, rows[0])
        usage_counters.count(rows[1:])
        show_names(rows[1:], presented(request).digest)
        message = responses.acquired_all(rows)
        return json_response(message, status=responses.status_of(message))


class RenewAllView(BulkView):
    max_body = MAX_BULK_BODY

    @describe(
        "renew_all",
        "Renew many leases",
        tag="Many locks",
        scope="locks:write",
        body=schemas.RenewAllBody,
        responses={200: schemas.RenewResults},
    )
    def post(self, request: Request) -> HttpResponse:
        caller, digest = self.caller(request), presented(request).digest
        rules = self.rules(request)
        leases = self.body(request, _RENEW_ALL).leases
        self.charge_names(request, leases)
        rows = run(
            renew(
                [
                    requests.Renew(
                        name=stored_name(check_name(lease.name, rules), digest),
                        lease_id=lease.lease_id,
                        ttl_seconds=check_ttl(lease.ttl_seconds),
                        **caller,
                    )
                    for lease in leases
                ]
            )
        )
        self.record_use(request, rows[0])
        usage_counters.count(rows[1:])
        show_names(rows[1:], digest)
        return json_response(schemas.RenewResults(results=[responses.renew_result(row) for row in rows]))


class ReleaseAllView(BulkView):
    max_body = MAX_BULK_BODY

    @describe(
        "release_all",
        "Release many leases",
        tag="Many locks",
        scope="locks:write",
        body=schemas.ReleaseAllBody,
        responses={200: schemas.ReleaseResults},
    )
    def post(self, request: Request) -> HttpResponse:
        caller, digest = self.caller(request), presented(request).digest
        rules = self.rules(request)
        leases = self.body(request, _RELEASE_ALL).leases
        self.charge_names(request, leases)
        rows = run(
            release(
                [
                    requests.Release(
                        name=stored_name(check_name(lease.name, rules), digest), lease_id=lease.lease_id, **caller
                    )
                    for lease in leases
                ]
            )
        )
        self.record_use(request, rows[0])
        show_names(rows[1:], digest)
        return json_response(schemas.ReleaseResults(results=[responses.release_result(row) for row in rows]))


class LockCursor(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The key of a page's last lock, in the order that the list is sorted by."""

    sort: str
    name: Text
    time: Moment | None = None


class LocksView(LockApiView):
    @describe(
        "list_locks",
        "List locks",
        tag="Locks",
        scope="locks:read",
        responses={200: schemas.LockPage},
        errors=(422,),
        parameters=[
            query("prefix", OpenApiTypes.STR, "Only names that start with this."),
            query("owner", OpenApiTypes.STR, "Only locks of this owner."),
            query("status", {"type": "string", "enum": list(STATUSES)}, "Default: held."),
            query("sort", {"type": "string", "enum": list(SORTS)}, "Sorting by time needs status=held."),
            query(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": MAX_PAGE},
                f"Without it, up to {MAX_UNPAGED:,} locks; `next_cursor` says whether there are more.",
            ),
            query("cursor", OpenApiTypes.STR, "The `next_cursor` of the previous page."),
        ],
    )
    def get(self, request: Request) -> HttpResponse:
        django_request = request._request
        sort = query_choice(django_request, "sort", SORTS)
        status = query_choice(django_request, "status", STATUSES)
        if sort != "name" and status != "held":
            raise invalid_input(422, f"sort={sort} requires status=held.")
        limit = MAX_UNPAGED
        if "limit" in django_request.GET:
            limit = query_number(django_request, "limit", default=MAX_PAGE, minimum=1, maximum=MAX_PAGE)
        prefix = check_prefix(query_text(django_request, "prefix") or "", self.rules(request))
        after = query_cursor(django_request, LockCursor)
        if after and (after.sort != sort or (sort != "name" and after.time is None)):
            raise invalid_input(422, "cursor belongs to a list with another sort order.")
        rows = run(
            listing(
                requests.Listing(
                    digest=self.caller(request)["digest"],
                    prefix=stored_name(prefix, presented(request).digest),
                    visible_run_names=visible_run_names(presented(request).digest),
                    owner=query_text(django_request, "owner"),
                    status=status,
                    sort=sort,
                    limit=limit + 1,
                    after_name=stored_name(after.name, presented(request).digest) if after else "",
                    after_time=after.time.isoformat() if after and after.time else None,
                )
            )
        )
        self.record_use(request, rows[0])
        responses.raise_api_error(rows[0], scope="locks:read")
        limits.charge_rows(presented(request).digest, len(rows))
        show_names(rows[1:], presented(request).digest)
        # Without any lock there is still a row, for the total.
        locks = [responses.lock(row.status, row) for row in rows[:limit] if row.name is not None]
        last, more = rows[:limit][-1], len(rows) > limit
        time = {"expires_at": last.expires_at, "acquired_at": last.acquired_at}.get(sort)
        return json_response(
            schemas.LockPage(
                locks=locks,
                total=min(last.total, MAX_TOTAL),
                total_is_at_least=last.total > MAX_TOTAL,
                prefix=prefix,
                next_cursor=encode(LockCursor(sort=sort, name=last.name or "", time=time)) if more else None,
            )
        )
