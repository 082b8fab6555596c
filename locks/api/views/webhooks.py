"""Webhooks: create, list, change, pause, delete, rotate the secret."""

from datetime import datetime, timedelta
from typing import Annotated, Literal, TypeAlias, cast

import msgspec
from django.http import HttpResponse
from msgspec import UNSET, Meta, UnsetType
from rest_framework.request import Request

from locks.api.base_view import json_response, no_content
from locks.api.errors import ApiError, Code, invalid_input
from locks.api.exceptions import not_found
from locks.api.openapi_hooks import describe
from locks.api.parsing import check_text, decoder, parse_body
from locks.api.schemas import TEXT_PATTERN
from locks.api.views.tokens import TokenEndpoint, is_within
from locks.events.webhooks.urls import MAX_URL, InvalidTarget
from locks.models import Scope, Token, Webhook
from locks.services import webhooks

MAX_OVERLAP_SECONDS = 7 * 86_400

Kind: TypeAlias = Literal["acquired", "released", "expired", "force_released"]
Url: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=MAX_URL, extra_json_schema={"format": "uri", "pattern": "^https?://"})
]
Prefix: TypeAlias = Annotated[str, Meta(max_length=256, extra_json_schema={"pattern": TEXT_PATTERN})]


class WebhookDescription(msgspec.Struct, kw_only=True):
    """Empty `kinds` means all. `failures` counts failed attempts in a row."""

    id: str
    url: str
    kinds: list[Kind]
    prefix: str
    paused: bool
    failures: int
    created_at: datetime
    created_by: str


class WebhookList(msgspec.Struct, kw_only=True):
    webhooks: list[WebhookDescription]


class CreateBody(msgspec.Struct, kw_only=True):
    url: Url
    kinds: Annotated[list[Kind], Meta(max_length=4)] = []
    prefix: Prefix = ""


class ChangeBody(msgspec.Struct, kw_only=True):
    """Fields that are left out keep their value."""

    url: Url | UnsetType = UNSET
    kinds: Annotated[list[Kind], Meta(max_length=4)] | UnsetType = UNSET
    prefix: Prefix | UnsetType = UNSET
    paused: bool | UnsetType = UNSET


class CreatedWebhook(WebhookDescription, kw_only=True):
    """With the secret, which no other response contains."""

    secret: str


class RotateSecretBody(msgspec.Struct, kw_only=True):
    overlap_seconds: Annotated[int, Meta(ge=0, le=MAX_OVERLAP_SECONDS)] = 86_400


class NewSecret(msgspec.Struct, kw_only=True):
    secret: str


_CREATE = decoder(CreateBody)
_CHANGE = decoder(ChangeBody)
_ROTATE = decoder(RotateSecretBody)


def _describe(webhook: Webhook) -> dict[str, object]:
    return {
        "id": webhook.public_id,
        "url": webhook.url,
        "kinds": list(webhook.kinds),
        "prefix": webhook.prefix,
        "paused": webhook.paused_at is not None,
        "failures": webhook.consecutive_failures,
        "created_at": webhook.created_at,
        "created_by": webhook.created_by,
    }


def _description(webhook: Webhook) -> WebhookDescription:
    return WebhookDescription(**_describe(webhook))  # type: ignore[arg-type]


class WebhookEndpoint(TokenEndpoint):
    scope = Scope.WEBHOOKS_MANAGE

    def own(self, request: Request) -> Token:
        return cast(Token, request.auth)

    def webhook(self, request: Request, public_id: str) -> Webhook:
        """Raises 404 unless it belongs to the token's space and is within its prefixes."""
        own = self.own(request)
        webhook = Webhook.objects.select_related("space").filter(space_id=own.space_id, public_id=public_id).first()
        if webhook is None or not is_within(own, [webhook.prefix]):
            raise not_found()
        return webhook

    def check_prefix(self, request: Request, prefix: str) -> None:
        check_text("prefix", prefix)
        if not is_within(self.own(request), [prefix]):
            raise ApiError(403, Code.FORBIDDEN, "The prefix must be within the token's own prefixes.")


class WebhooksView(WebhookEndpoint):
    @describe(
        "list_webhooks", "Webhooks of the space", tag="Webhooks", scope="webhooks:manage", responses={200: WebhookList}
    )
    def get(self, request: Request) -> HttpResponse:
        own = self.own(request)
        visible = [
            webhook for webhook in Webhook.objects.filter(space_id=own.space_id) if is_within(own, [webhook.prefix])
        ]
        return json_response(WebhookList(webhooks=[_description(webhook) for webhook in visible]))

    @describe(
        "create_webhook",
        "Create a webhook",
        tag="Webhooks",
        scope="webhooks:manage",
        body=CreateBody,
        responses={201: CreatedWebhook},
        errors=(409,),
        description="The response contains the secret that deliveries are signed with; it is not shown again. Private "
        "addresses are refused, here and at each attempt.",
    )
    def post(self, request: Request) -> HttpResponse:
        body = parse_body(request._request, _CREATE)
        self.check_prefix(request, body.prefix)
        try:
            secret, webhook = webhooks.create(
                actor=self.actor(request), space=self.own(request).space, url=body.url, kinds=body.kinds,
                prefix=body.prefix,
            )  # fmt: skip
        except InvalidTarget as error:
            raise invalid_input(422, str(error)) from None
        except webhooks.TooManyWebhooks:
            limit = webhooks.MAX_WEBHOOKS_PER_SPACE
            raise ApiError(409, Code.CONFLICT, f"The space has {limit} webhooks already. Delete one first.") from None
        webhook.refresh_from_db()
        response = json_response(CreatedWebhook(secret=secret, **_describe(webhook)), status=201)  # type: ignore[arg-type]
        response["Cache-Control"] = "no-store"
        return response


class WebhookView(WebhookEndpoint):
    @describe(
        "get_webhook",
        "One webhook",
        tag="Webhooks",
        scope="webhooks:manage",
        responses={200: WebhookDescription},
        errors=(404,),
    )
    def get(self, request: Request, public_id: str) -> HttpResponse:
        return json_response(_description(self.webhook(request, public_id)))

    @describe(
        "change_webhook",
        "Change, pause or resume a webhook",
        tag="Webhooks",
        scope="webhooks:manage",
        body=ChangeBody,
        body_required=False,
        responses={200: WebhookDescription},
        errors=(404,),
        description="A paused webhook loses no events: when it is resumed, it continues where it was in the history.",
    )
    def patch(self, request: Request, public_id: str) -> HttpResponse:
        webhook = self.webhook(request, public_id)
        body = parse_body(request._request, _CHANGE)
        actor = self.actor(request)
        changes = {
            field: getattr(body, field) for field in ("url", "kinds", "prefix") if getattr(body, field) is not UNSET
        }
        if "prefix" in changes:
            self.check_prefix(request, changes["prefix"])
        try:
            if changes:
                webhook = webhooks.change(actor=actor, webhook=webhook, **changes)
        except InvalidTarget as error:
            raise invalid_input(422, str(error)) from None
        if body.paused is not UNSET:
            webhook = (webhooks.pause if body.paused else webhooks.resume)(actor=actor, webhook=webhook)
        return json_response(_description(webhook))

    @describe(
        "delete_webhook",
        "Delete a webhook and its deliveries",
        tag="Webhooks",
        scope="webhooks:manage",
        responses={204: None},
        errors=(404,),
    )
    def delete(self, request: Request, public_id: str) -> HttpResponse:
        webhooks.delete(actor=self.actor(request), webhook=self.webhook(request, public_id))
        return no_content()


class RotateSecretView(WebhookEndpoint):
    @describe(
        "rotate_webhook_secret",
        "Rotate the secret",
        tag="Webhooks",
        scope="webhooks:manage",
        body=RotateSecretBody,
        body_required=False,
        responses={200: NewSecret},
        errors=(404,),
        description="For `overlap_seconds`, by default a day, deliveries also carry the header "
        "`X-OctoStore-Signature-Previous`, made with the old secret.",
    )
    def post(self, request: Request, public_id: str) -> HttpResponse:
        webhook = self.webhook(request, public_id)
        body = parse_body(request._request, _ROTATE)
        overlap = timedelta(seconds=body.overlap_seconds)
        secret = webhooks.rotate_secret(actor=self.actor(request), webhook=webhook, overlap=overlap)
        response = json_response(NewSecret(secret=secret))
        response["Cache-Control"] = "no-store"
        return response
