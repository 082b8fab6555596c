"""Deliveries of a webhook: their results, a test delivery, replays."""

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec
from django.http import HttpResponse
from rest_framework.request import Request

from locks.api.base_view import json_response
from locks.api.errors import ApiError, Code
from locks.api.exceptions import not_found
from locks.api.openapi_hooks import OpenApiTypes, describe, query
from locks.api.parsing import query_choice, query_cursor, query_number
from locks.api.views.webhooks import WebhookEndpoint
from locks.models import Delivery
from locks.pagination import IdCursor, fetch_page
from locks.services import webhooks

STATUSES = ("all", "pending", "delivered", "dead")


class Attempt(msgspec.Struct, kw_only=True):
    """`status` is the HTTP status of the answer; without one, `problem` says why."""

    at: datetime
    took_ms: int
    status: int | None
    problem: str | None


class DeliveryDescription(msgspec.Struct, kw_only=True):
    id: UUID
    event_id: str
    event: str
    lock_name: str | None
    status: Literal["pending", "delivered", "dead"]
    attempts: int
    created_at: datetime
    next_attempt_at: datetime | None
    finished_at: datetime | None
    log: list[Attempt]


class DeliveryPage(msgspec.Struct, kw_only=True):
    """Newest first, each with its latest attempts."""

    deliveries: list[DeliveryDescription]
    next_cursor: str | None


class Replayed(msgspec.Struct, kw_only=True):
    replayed: int


def _description(delivery: Delivery) -> DeliveryDescription:
    return DeliveryDescription(
        id=delivery.public_id,
        event_id=str(delivery.event_id),
        event=delivery.kind,
        lock_name=delivery.lock_name or None,
        status=delivery.status,  # type: ignore[arg-type]
        attempts=delivery.attempts,
        created_at=delivery.created_at,
        next_attempt_at=delivery.next_attempt_at if delivery.status == "pending" else None,
        finished_at=delivery.finished_at,
        log=[
            Attempt(at=attempt.at, took_ms=attempt.duration_ms, status=attempt.status, problem=attempt.error)
            for attempt in delivery.log.all()
        ],
    )


class TestView(WebhookEndpoint):
    @describe(
        "test_webhook",
        "Send a test delivery",
        tag="Webhooks",
        scope="webhooks:manage",
        responses={202: DeliveryDescription},
        errors=(404,),
        description="Sent within a second or two, also while the webhook is paused. The deliveries show the result.",
    )
    def post(self, request: Request, public_id: str) -> HttpResponse:
        delivery = webhooks.send_test(actor=self.actor(request), webhook=self.webhook(request, public_id))
        return json_response(_description(delivery), status=202)


class DeliveriesView(WebhookEndpoint):
    @describe(
        "list_deliveries",
        "Deliveries of a webhook, with their attempts",
        tag="Webhooks",
        scope="webhooks:manage",
        responses={200: DeliveryPage},
        errors=(404, 422),
        parameters=[
            query("status", {"type": "string", "enum": list(STATUSES)}, "Default: all."),
            query("limit", {"type": "integer", "minimum": 1, "maximum": 100}, "Default: 50."),
            query("cursor", OpenApiTypes.STR, "The `next_cursor` of the previous page."),
        ],
    )
    def get(self, request: Request, public_id: str) -> HttpResponse:
        webhook = self.webhook(request, public_id)
        status = query_choice(request._request, "status", STATUSES)
        limit = query_number(request._request, "limit", default=50, minimum=1, maximum=100)
        deliveries = Delivery.objects.filter(webhook=webhook).prefetch_related("log")
        if status != "all":
            deliveries = deliveries.filter(status=status)
        page = fetch_page(deliveries, by=IdCursor, limit=limit, cursor=query_cursor(request._request, IdCursor))
        return json_response(
            DeliveryPage(deliveries=[_description(delivery) for delivery in page.rows], next_cursor=page.older)
        )


class ReplayView(WebhookEndpoint):
    @describe(
        "replay_deliveries",
        "Send all failed deliveries again",
        tag="Webhooks",
        scope="webhooks:manage",
        responses={202: Replayed},
        errors=(404,),
    )
    def post(self, request: Request, public_id: str) -> HttpResponse:
        replayed = webhooks.replay(actor=self.actor(request), webhook=self.webhook(request, public_id))
        return json_response(Replayed(replayed=replayed), status=202)


class ReplayOneView(WebhookEndpoint):
    @describe(
        "replay_delivery",
        "Send one delivery again",
        tag="Webhooks",
        scope="webhooks:manage",
        responses={202: Replayed},
        errors=(404, 409),
    )
    def post(self, request: Request, public_id: str, delivery_id: UUID) -> HttpResponse:
        webhook = self.webhook(request, public_id)
        delivery = Delivery.objects.filter(webhook=webhook, public_id=delivery_id).first()
        if delivery is None:
            raise not_found()
        replayed = webhooks.replay(actor=self.actor(request), webhook=webhook, delivery=delivery)
        if not replayed:
            raise ApiError(409, Code.CONFLICT, "The delivery is still pending.")
        return json_response(Replayed(replayed=replayed), status=202)
