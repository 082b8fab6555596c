"""One lock, one lease: acquire, renew, release, force-release, inspect."""

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request

from locks.api import responses, schemas
from locks.api.base_view import LockApiView, answer
from locks.api.errors import invalid_input
from locks.api.openapi_hooks import IDEMPOTENCY_KEY, NAME, describe
from locks.api.parsing import check_name, check_text, check_ttl, decoder
from locks.api.waiting import NOT_ACQUIRED, park
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire, force_release, inspect, release, renew

_ACQUIRE = decoder(schemas.AcquireBody)
_RENEW = decoder(schemas.RenewBody)
_RELEASE = decoder(schemas.ReleaseBody)
_FORCE_RELEASE = decoder(schemas.ForceReleaseBody)


class AcquireView(LockApiView):
    @describe(
        "acquire",
        "Claim a lock",
        tag="Locks",
        scope="locks:write",
        body=schemas.AcquireBody,
        body_required=False,
        answers={200: schemas.Acquired | schemas.Held, 409: schemas.Delayed},
        errors=(404, 409, 410),
        parameters=[NAME, IDEMPOTENCY_KEY],
        description="`acquired`: proceed. `held`: back off and look at the owner. `delayed` (409): the name is closed "
        "for a while after its last holder. With `wait_seconds` the answer comes when it is your turn, first come, "
        "first served, or when the time is up.",
        examples=[
            OpenApiExample("a deploy", {"ttl_seconds": 60, "metadata": "host=runner-7 build=1842"}, request_only=True)
        ],
    )
    def post(self, request: Request, name: str) -> HttpResponse:
        body = self.body(request, _ACQUIRE)
        asked = requests.Acquire(name=check_name(name), **self.caller(request), **self.terms(request, body))
        (outcome,) = run(acquire([asked]))
        if body.wait_seconds and outcome.verdict in NOT_ACQUIRED:
            self.note(request, outcome, waits=True)
            return park(asked, wait_seconds=body.wait_seconds)
        self.note(request, outcome)
        message = responses.acquired(outcome)
        return answer(message, status=responses.status_of(message))


class RenewView(LockApiView):
    @describe(
        "renew",
        "Keep a lease alive",
        tag="Locks",
        scope="locks:write",
        body=schemas.RenewBody,
        answers={200: schemas.Renewed},
        errors=(404,),
        parameters=[NAME],
        description="Sets the expiry to now plus the TTL, which is the lease's own if absent. An expired lease is "
        "never revived.",
    )
    def post(self, request: Request, name: str) -> HttpResponse:
        body = self.body(request, _RENEW)
        asked = requests.Renew(
            name=check_name(name),
            lease_id=body.lease_id,
            ttl_seconds=check_ttl(body.ttl_seconds),
            **self.caller(request),
        )
        (outcome,) = run(renew([asked]))
        self.note(request, outcome)
        return answer(responses.renewed(outcome))


class ReleaseView(LockApiView):
    @describe(
        "release",
        "Give a lease back",
        tag="Locks",
        scope="locks:write",
        body=schemas.ReleaseBody,
        answers={200: None},
        errors=(404,),
        parameters=[NAME],
    )
    def post(self, request: Request, name: str) -> HttpResponse:
        body = self.body(request, _RELEASE)
        asked = requests.Release(name=check_name(name), lease_id=body.lease_id, **self.caller(request))
        (outcome,) = run(release([asked]))
        self.note(request, outcome)
        responses.check_released(outcome)
        return answer(None)


class ForceReleaseView(LockApiView):
    @describe(
        "force_release",
        "Free a lock that somebody else holds",
        tag="Locks",
        scope="locks:force",
        body=schemas.ForceReleaseBody,
        answers={200: schemas.ForceReleased},
        errors=(404, 409),
        parameters=[NAME],
        description="Send the `fencing_token` you were looking at: if the lock has changed hands since, nothing "
        "happens (409). The old holder keeps running until its next renew.",
    )
    def post(self, request: Request, name: str) -> HttpResponse:
        body = self.body(request, _FORCE_RELEASE)
        reason = check_text("reason", body.reason.strip())
        if not reason:
            raise invalid_input(422, "A reason is required.")
        asked = requests.ForceRelease(
            name=check_name(name),
            reason=reason,
            expected_fencing_token=body.fencing_token,
            lock_delay_seconds=body.lock_delay_seconds,
            **self.caller(request),
        )
        (outcome,) = run(force_release([asked]))
        self.note(request, outcome)
        return answer(responses.force_released(outcome))


class LockView(LockApiView):
    @describe(
        "inspect",
        "See who holds a lock",
        tag="Locks",
        scope="locks:read",
        answers={200: schemas.Lock},
        errors=(400,),
        parameters=[NAME],
        description="Always 200 for a valid name: a lock that nobody holds is free, known or not.",
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        (outcome,) = run(inspect([requests.Inspect(name=check_name(name), **self.caller(request))]))
        self.note(request, outcome)
        return answer(responses.inspected(outcome))
