"""One lock, one lease: acquire, renew, release, force-release, inspect."""

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request

from locks.api import answers, messages
from locks.api.endpoint import LockEndpoint, answer
from locks.api.errors import invalid_input
from locks.api.parked import IN_VAIN, park
from locks.api.parsing import check_name, check_text, check_ttl, decoder
from locks.api.schema import IDEMPOTENCY_KEY, NAME, describe
from locks.engine import requests
from locks.engine.execution import perform
from locks.engine.operations import acquire, force_release, inspect, release, renew

_ACQUIRE = decoder(messages.AcquireBody)
_RENEW = decoder(messages.RenewBody)
_RELEASE = decoder(messages.ReleaseBody)
_FORCE_RELEASE = decoder(messages.ForceReleaseBody)


class AcquireView(LockEndpoint):
    @describe(
        "acquire",
        "Claim a lock",
        tag="Locks",
        scope="locks:write",
        body=messages.AcquireBody,
        body_required=False,
        answers={200: messages.Acquired | messages.Held, 409: messages.Delayed},
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
        (outcome,) = perform(acquire([asked]))
        if body.wait_seconds and outcome.verdict in IN_VAIN:
            self.note(request, outcome, waits=True)
            return park(asked, wait_seconds=body.wait_seconds)
        self.note(request, outcome)
        message = answers.acquired(outcome)
        return answer(message, status=answers.status_of(message))


class RenewView(LockEndpoint):
    @describe(
        "renew",
        "Keep a lease alive",
        tag="Locks",
        scope="locks:write",
        body=messages.RenewBody,
        answers={200: messages.Renewed},
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
        (outcome,) = perform(renew([asked]))
        self.note(request, outcome)
        return answer(answers.renewed(outcome))


class ReleaseView(LockEndpoint):
    @describe(
        "release",
        "Give a lease back",
        tag="Locks",
        scope="locks:write",
        body=messages.ReleaseBody,
        answers={200: None},
        errors=(404,),
        parameters=[NAME],
    )
    def post(self, request: Request, name: str) -> HttpResponse:
        body = self.body(request, _RELEASE)
        asked = requests.Release(name=check_name(name), lease_id=body.lease_id, **self.caller(request))
        (outcome,) = perform(release([asked]))
        self.note(request, outcome)
        answers.check_released(outcome)
        return answer(None)


class ForceReleaseView(LockEndpoint):
    @describe(
        "force_release",
        "Free a lock that somebody else holds",
        tag="Locks",
        scope="locks:force",
        body=messages.ForceReleaseBody,
        answers={200: messages.ForceReleased},
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
            guard=body.fencing_token,
            lock_delay_seconds=body.lock_delay_seconds,
            **self.caller(request),
        )
        (outcome,) = perform(force_release([asked]))
        self.note(request, outcome)
        return answer(answers.force_released(outcome))


class LockView(LockEndpoint):
    @describe(
        "inspect",
        "See who holds a lock",
        tag="Locks",
        scope="locks:read",
        answers={200: messages.Lock},
        errors=(400,),
        parameters=[NAME],
        description="Always 200 for a valid name: a lock that nobody holds is free, known or not.",
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        (outcome,) = perform(inspect([requests.Inspect(name=check_name(name), **self.caller(request))]))
        self.note(request, outcome)
        return answer(answers.inspected(outcome))
