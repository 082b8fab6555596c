"""Webhooks: create, list, change, pause, delete, rotate the secret.

OctoStore's fields `events`, `lock_pattern` and `secret` are accepted beside our own.
"""

import re
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, TypeAlias, cast
from uuid import UUID

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
from locks.engine.names import canonical_filter
from locks.events.webhooks.urls import MAX_URL, InvalidTarget
from locks.models import Scope, Token, Webhook
from locks.services import tokens, webhooks

MAX_OVERLAP_SECONDS = 7 * 86_400

Kind: TypeAlias = Literal[
    "acquired", "released", "expired", "force_released",
    "stuck", "stuck_cleared", "token_expiring", "system_unhealthy", "system_recovered",
]  # fmt: skip
MAX_KINDS = 9
Url: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=MAX_URL, extra_json_schema={"format": "uri", "pattern": "^https?://"})
]
Prefix: TypeAlias = Annotated[str, Meta(max_length=256, extra_json_schema={"pattern": TEXT_PATTERN})]


# `renewed` is one of OctoStore's events: renewals are not in the history, so a webhook for them is refused.
EventName: TypeAlias = Kind | Literal["renewed", "*"]
Pattern: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=256,
        description="Only names that match this glob: `*` is any text, also with slashes, `?` one character.",
        examples=["service/*"],
    ),
]
Secret: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256, extra_json_schema={"pattern": TEXT_PATTERN})]
Unsupported: TypeAlias = Annotated[Any, Meta(description="Not supported.", extra_json_schema={"type": "null"})]
REDACTED = "****"
# Characters of names and the two wildcards. Other wildcards would never match.
_PATTERN = re.compile(r"[\w.\-:@+=~/*?]+")


class WebhookDescription(msgspec.Struct, kw_only=True):
    """Empty `kinds` means all changes of locks; `events` are the same on OctoStore's terms. `failures` counts failed
    attempts in a row. `user_id` is a pseudonym of the token that asks, `secret` is redacted."""

    id: UUID
    user_id: UUID
    url: str
    secret: str
    events: list[str]
    lock_pattern: str | None
    active: bool
    kinds: list[Kind]
    prefix: str
    paused: bool
    failures: int
    created_at: datetime
    created_by: str


class WebhookList(msgspec.Struct, kw_only=True):
    webhooks: list[WebhookDescription]


class CreateBody(msgspec.Struct, kw_only=True):
    """`events` are `kinds` on OctoStore's terms: send one of the two. Without a `secret` the response has a new one."""

    url: Url
    kinds: Annotated[list[Kind], Meta(max_length=MAX_KINDS)] = []
    prefix: Prefix = ""
    events: Annotated[list[EventName], Meta(max_length=16)] | None = None
    lock_pattern: Pattern | None = None
    secret: Secret | None = None


class ChangeBody(msgspec.Struct, kw_only=True):
    """Fields that are left out keep their value."""

    url: Url | UnsetType = UNSET
    kinds: Annotated[list[Kind], Meta(max_length=MAX_KINDS)] | UnsetType = UNSET
    prefix: Prefix | UnsetType = UNSET
    paused: bool | UnsetType = UNSET
    events: Unsupported = None
    lock_pattern: Unsupported = None
    secret: Unsupported = None


class CreatedWebhook(WebhookDescription, kw_only=True):
    """If the server made the secret, this is the only response that contains it."""


class RotateSecretBody(msgspec.Struct, kw_only=True):
    overlap_seconds: Annotated[int, Meta(ge=0, le=MAX_OVERLAP_SECONDS)] = 86_400


class NewSecret(msgspec.Struct, kw_only=True):
    secret: str


_CREATE = decoder(CreateBody)
_CHANGE = decoder(ChangeBody)
_ROTATE = decoder(RotateSecretBody)


def _describe(webhook: Webhook, *, token: Token) -> dict[str, Any]:
    return {
        "id": UUID(webhook.public_id),
        "user_id": tokens.user_id(token),
        "url": webhook.url,
        "secret": REDACTED,
        "events": list(webhook.kinds) or ["*"],
        "lock_pattern": webhook.lock_pattern,
        "active": webhook.paused_at is None,
        "kinds": list(webhook.kinds),
        "prefix": webhook.prefix,
        "paused": webhook.paused_at is not None,
        "failures": webhook.consecutive_failures,
        "created_at": webhook.created_at,
        "created_by": webhook.created_by,
    }


def _description(webhook: Webhook, *, token: Token) -> WebhookDescription:
    return WebhookDescription(**_describe(webhook, token=token))


def _kinds(body: CreateBody) -> list[Kind]:
    if body.events is None:
        return body.kinds
    if body.kinds:
        raise invalid_input(400, "Send events or kinds, not both.")
    if "renewed" in body.events:
        raise invalid_input(400, "There are no webhooks for renewals. Leave 'renewed' out, or watch the lock.")
    return [] if "*" in body.events else cast("list[Kind]", body.events)


def _literal_start(pattern: str | None) -> str:
    """All names that match start with this."""
    if pattern is None:
        return ""
    if _PATTERN.fullmatch(pattern) is None:
        raise invalid_input(400, "lock_pattern may contain the characters of names and the wildcards * and ?.")
    return re.split(r"[*?]", pattern, maxsplit=1)[0]


class WebhookEndpoint(TokenEndpoint):
    scope = Scope.WEBHOOKS_MANAGE

    def own(self, request: Request) -> Token:
        return cast(Token, request.auth)

    def webhook(self, request: Request, public_id: str) -> Webhook:
        """Raises 404 unless it belongs to the token's space and is within its prefixes."""
        own = self.own(request)
        webhook = (
            Webhook.objects.filter(space_id=own.space_id, public_id=public_id, alert_rule=None)
            .select_related("space")
            .first()
        )
        if webhook is None or not is_within(own, [webhook.prefix]):
            raise not_found()
        return webhook

    def check_prefix(self, request: Request, prefix: str) -> str:
        check_text("prefix", prefix)
        prefix = canonical_filter(prefix, self.rules(request), is_prefix=True)
        if not is_within(self.own(request), [prefix]):
            raise ApiError(403, Code.FORBIDDEN, "The prefix must be within the token's own prefixes.")
        return prefix


class WebhooksView(WebhookEndpoint):
    @describe(
        "list_webhooks",
        "Webhooks of the space",
        tag="Webhooks",
        scope="webhooks:manage",
        responses={200: WebhookList | list[WebhookDescription]},
        description="In a space with OctoStore compatibility, an array.",
    )
    def get(self, request: Request) -> HttpResponse:
        own = self.own(request)
        visible = [
            _description(webhook, token=own)
            for webhook in Webhook.objects.filter(space_id=own.space_id, alert_rule=None)
            if is_within(own, [webhook.prefix])
        ]
        return json_response(visible if own.space.octostore_compatibility else WebhookList(webhooks=visible))

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
        own = self.own(request)
        pattern_start = _literal_start(body.lock_pattern)
        prefix = self.check_prefix(request, body.prefix or pattern_start)
        try:
            secret, webhook = webhooks.create(
                actor=self.actor(request), space=own.space, url=body.url, kinds=_kinds(body), prefix=prefix,
                lock_pattern=body.lock_pattern, secret=check_text("secret", body.secret),
            )  # fmt: skip
        except InvalidTarget as error:
            raise invalid_input(422, str(error)) from None
        except webhooks.TooManyWebhooks:
            limit = webhooks.MAX_WEBHOOKS_PER_SPACE
            raise ApiError(409, Code.CONFLICT, f"The space has {limit} webhooks already. Delete one first.") from None
        webhook.refresh_from_db()
        shown = REDACTED if body.secret else secret
        response = json_response(CreatedWebhook(**{**_describe(webhook, token=own), "secret": shown}), status=201)
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
        return json_response(_description(self.webhook(request, public_id), token=self.own(request)))

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
        if body.events is not None or body.lock_pattern is not None or body.secret is not None:
            raise invalid_input(400, "Change kinds and prefix, rotate the secret, or create another webhook.")
        actor = self.actor(request)
        changes = {
            field: getattr(body, field) for field in ("url", "kinds", "prefix") if getattr(body, field) is not UNSET
        }
        if "prefix" in changes:
            changes["prefix"] = self.check_prefix(request, changes["prefix"])
        try:
            if changes:
                webhook = webhooks.change(actor=actor, webhook=webhook, **changes)
        except InvalidTarget as error:
            raise invalid_input(422, str(error)) from None
        if body.paused is not UNSET:
            webhook = (webhooks.pause if body.paused else webhooks.resume)(actor=actor, webhook=webhook)
        return json_response(_description(webhook, token=self.own(request)))

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
        description="For `overlap_seconds`, by default a day, deliveries are also signed with the old secret: by a "
        "second `v1` in `X-Octo-Signature`, and by `X-OctoStore-Signature-Previous`.",
    )
    def post(self, request: Request, public_id: str) -> HttpResponse:
        webhook = self.webhook(request, public_id)
        body = parse_body(request._request, _ROTATE)
        overlap = timedelta(seconds=body.overlap_seconds)
        secret = webhooks.rotate_secret(actor=self.actor(request), webhook=webhook, overlap=overlap)
        response = json_response(NewSecret(secret=secret))
        response["Cache-Control"] = "no-store"
        return response
