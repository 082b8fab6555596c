"""Endpoints for one lock: acquire, renew, release, force-release, access list, inspect."""

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request

from locks.api import acl, responses, schemas
from locks.api.base_view import LockApiView, json_response, presented
from locks.api.errors import invalid_input
from locks.api.openapi_hooks import IDEMPOTENCY_KEY, NAME, describe
from locks.api.parsing import check_delay, check_text, check_ttl, decoder
from locks.api.waiting import NOT_ACQUIRED, defer_acquire
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire, force_release, inspect, release, renew, set_acl
from locks.services.force_release import force_release_request

_ACQUIRE = decoder(schemas.AcquireBody)
_RENEW = decoder(schemas.RenewBody)
_RELEASE = decoder(schemas.ReleaseBody)
_FORCE_RELEASE = decoder(schemas.ForceReleaseBody)
_SET_ACL = decoder(schemas.SetAclBody)


class AcquireView(LockApiView):
    @describe(
        "acquire",
        "Acquire a lock",
        tag="Locks",
        scope="locks:write",
        body=schemas.AcquireBody,
        body_required=False,
        responses={200: schemas.Acquired | schemas.Held, 409: schemas.Delayed},
        errors=(404, 409, 410),
        parameters=[NAME, IDEMPOTENCY_KEY],
        description="`acquired`: start the work. `held`: another holder has the lock; retry later. `delayed` (409): "
        "the lock is in the cooldown after its last lease, or frozen by an operator (`frozen`, with the reason). "
        "With `wait_seconds` the request waits in the queue, first come, first served, until the lock is acquired or "
        "the wait times out.",
        examples=[
            OpenApiExample("a deploy", {"ttl_seconds": 60, "metadata": "host=runner-7 build=1842"}, request_only=True)
        ],
    )
    def post(self, request: Request, name: str) -> HttpResponse:
        body = self.body(request, _ACQUIRE)
        options = self.lease_options(request, body)
        if "acl" in options:
            options["acl"] = acl.resolve(options["acl"], digest=presented(request).digest, must_include_caller=True)
        acquire_request = requests.Acquire(
            name=self.lock_name(request, name, to_acquire=True), **self.caller(request), **options
        )
        (outcome,) = run(acquire([acquire_request]))
        if body.wait_seconds and outcome.verdict in NOT_ACQUIRED:
            self.record_use(request, outcome, waits=True)
            return defer_acquire(acquire_request, wait_seconds=body.wait_seconds)
        self.record_use(request, outcome)
        message = responses.acquired(outcome)
        return json_response(message, status=responses.status_of(message))


class RenewView(LockApiView):
    @describe(
        "renew",
        "Renew a lease",
        tag="Locks",
        scope="locks:write",
        body=schemas.RenewBody,
        responses={200: schemas.Renewed},
        errors=(404,),
        parameters=[NAME],
        description="Sets the expiry to now plus the TTL, by default that of the lease. An expired lease cannot be "
        "renewed.",
    )
    def post(self, request: Request, name: str) -> HttpResponse:
        body = self.body(request, _RENEW)
        ttl_seconds = check_ttl(body.ttl_seconds)
        renewal = requests.Renew(
            name=self.lock_name(request, name), lease_id=body.lease_id, ttl_seconds=ttl_seconds, **self.caller(request)
        )
        (outcome,) = run(renew([renewal]))
        self.record_use(request, outcome)
        return json_response(responses.renewed(outcome))


class ReleaseView(LockApiView):
    @describe(
        "release",
        "Release a lease",
        tag="Locks",
        scope="locks:write",
        body=schemas.ReleaseBody,
        responses={200: None},
        errors=(404,),
        parameters=[NAME],
    )
    def post(self, request: Request, name: str) -> HttpResponse:
        body = self.body(request, _RELEASE)
        stored = self.lock_name(request, name)
        (outcome,) = run(release([requests.Release(name=stored, lease_id=body.lease_id, **self.caller(request))]))
        self.record_use(request, outcome)
        responses.check_released(outcome)
        return json_response(None)


class ForceReleaseView(LockApiView):
    @describe(
        "force_release",
        "Force-release a lock of another holder",
        tag="Locks",
        scope="locks:force",
        body=schemas.ForceReleaseBody,
        responses={200: schemas.ForceReleased},
        errors=(404, 409),
        parameters=[NAME],
        description="With `fencing_token`, the lock is released only if it is still held under that token (otherwise "
        "409). The old holder notices at its next renewal.",
    )
    def post(self, request: Request, name: str) -> HttpResponse:
        body = self.body(request, _FORCE_RELEASE)
        reason = check_text("reason", body.reason.strip())
        if not reason:
            raise invalid_input(422, "reason must not be blank.")
        force_request = force_release_request(
            self.caller(request),
            name=self.lock_name(request, name),
            reason=reason,
            fencing_token=body.fencing_token,
            lock_delay_seconds=check_delay(body.lock_delay_seconds),
        )
        (outcome,) = run(force_release([force_request]))
        self.record_use(request, outcome)
        return json_response(responses.force_released(outcome))


class AclView(LockApiView):
    @describe(
        "set_acl",
        "Replace the access list of a lock",
        tag="Locks",
        scope="locks:write",
        body=schemas.SetAclBody,
        responses={200: schemas.AclSet},
        errors=(404,),
        parameters=[NAME],
        description="The token that holds the lock may do this, and any token with the scope `locks:force`. The list "
        "stays after the lease; the current holder keeps its lease, also if the list excludes it.",
        examples=[OpenApiExample("two tokens", {"acl": {"acquire": ["user:deploy-bot"]}}, request_only=True)],
    )
    def put(self, request: Request, name: str) -> HttpResponse:
        lock_name = self.lock_name(request, name)
        body = self.body(request, _SET_ACL)
        listed = None
        if body.acl is not None:
            listed = acl.resolve(acl.principals(body.acl), digest=presented(request).digest, must_include_caller=False)
        outcome = run(set_acl(requests.SetAcl(name=lock_name, acl=listed, **self.caller(request))))
        self.record_use(request, outcome)
        return json_response(responses.acl_set(outcome))


class LockView(LockApiView):
    @describe(
        "inspect",
        "Inspect a lock",
        tag="Locks",
        scope="locks:read",
        responses={200: schemas.Lock},
        errors=(400,),
        parameters=[NAME],
        description="200 for every valid name: a name that was never used is a free lock.",
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        (outcome,) = run(inspect([requests.Inspect(name=self.lock_name(request, name), **self.caller(request))]))
        self.record_use(request, outcome)
        return json_response(responses.inspected(outcome))
