"""Endpoints for freezes: close a prefix, or the whole space, to new claims; list and lift."""

from datetime import datetime, timedelta
from typing import Annotated, cast

import msgspec
from django.http import HttpResponse
from msgspec import Meta
from rest_framework.request import Request

from locks.api.base_view import json_response, no_content
from locks.api.errors import ApiError, Code, invalid_input, name_not_allowed, scope_missing
from locks.api.exceptions import not_found
from locks.api.openapi_hooks import describe
from locks.api.parsing import check_prefix, check_text, decoder, parse_body
from locks.api.schemas import REASON_PATTERN, TEXT_PATTERN
from locks.api.views.tokens import TokenEndpoint, is_within
from locks.engine.names import MAX_NAME_BYTES
from locks.models import Freeze, Scope, Token
from locks.pagination import to_utc
from locks.services import clock, freezes
from locks.services.force_release import MAX_REASON

MAX_SECONDS = int(freezes.MAX_FREEZE.total_seconds())


class FreezeBody(msgspec.Struct, kw_only=True):
    """It ends after `duration_seconds`, or at `until`: send one of the two."""

    prefix: Annotated[
        str,
        Meta(
            max_length=MAX_NAME_BYTES,
            description="Names that start with it are closed. Empty: all names of the space.",
            examples=["deploy/"],
            extra_json_schema={"pattern": TEXT_PATTERN},
        ),
    ] = ""
    reason: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_REASON,
            description="Clients that are refused are told it.",
            examples=["database migration"],
            extra_json_schema={"pattern": REASON_PATTERN},
        ),
    ]
    duration_seconds: Annotated[int, Meta(ge=1, le=MAX_SECONDS)] | None = None
    until: Annotated[datetime, Meta(tz=True, description="At most 30 days from now.")] | None = None


class FreezeDescription(msgspec.Struct, kw_only=True):
    """New claims of names that start with `prefix` are refused until `until`."""

    id: int
    prefix: str
    reason: str
    until: datetime
    created_at: datetime
    created_by: str


class FreezeList(msgspec.Struct, kw_only=True):
    freezes: list[FreezeDescription]


_FREEZE = decoder(FreezeBody)


def _description(freeze: Freeze) -> FreezeDescription:
    return FreezeDescription(
        id=freeze.pk,
        prefix=freeze.prefix,
        reason=freeze.reason,
        until=freeze.until,
        created_at=freeze.created_at,
        created_by=freeze.actor_name,
    )


def _duration(body: FreezeBody) -> timedelta:
    if (body.duration_seconds is None) == (body.until is None):
        raise invalid_input(400, "Send duration_seconds or until, and not both.")
    if body.duration_seconds is not None:
        return timedelta(seconds=body.duration_seconds)
    assert body.until is not None
    duration = to_utc(body.until) - clock.now()
    if not timedelta(0) < duration <= freezes.MAX_FREEZE:
        raise invalid_input(400, "until must be in the future, and at most 30 days from now.")
    return duration


class FreezeEndpoint(TokenEndpoint):
    def own(self, request: Request, scope: Scope) -> Token:
        token = cast(Token, request.auth)
        if scope not in token.scopes:
            raise scope_missing(scope)
        return token


class FreezesView(FreezeEndpoint):
    @describe(
        "list_freezes",
        "Freezes in force",
        tag="Freezes",
        scope="locks:read",
        responses={200: FreezeList},
        description="The one that ends last comes first. A token that is limited to prefixes sees those that concern "
        "its names.",
    )
    def get(self, request: Request) -> HttpResponse:
        own = self.own(request, Scope.LOCKS_READ)
        concerning = [
            freeze
            for freeze in freezes.in_force(own.space)
            if is_within(own, [freeze.prefix]) or any(prefix.startswith(freeze.prefix) for prefix in own.prefixes)
        ]
        return json_response(FreezeList(freezes=[_description(freeze) for freeze in concerning]))

    @describe(
        "freeze",
        "Close a prefix or the space to new claims",
        tag="Freezes",
        scope="locks:force",
        body=FreezeBody,
        responses={201: FreezeDescription},
        errors=(409,),
        description="New claims of the names answer `delayed` (409) with the reason. Leases that are held can be "
        "renewed and released; requests that wait keep their places and are served when the freeze ends. When this "
        "has answered, no further lease of the names is granted.",
    )
    def post(self, request: Request) -> HttpResponse:
        own = self.own(request, Scope.LOCKS_FORCE)
        body = parse_body(request._request, _FREEZE)
        prefix = check_prefix(check_text("prefix", body.prefix) or "", self.rules(request))
        reason = (check_text("reason", body.reason) or "").strip()
        if not reason:
            raise invalid_input(422, "reason may not be blank.")
        if not is_within(own, [prefix]):
            raise name_not_allowed(prefix)
        try:
            freeze = freezes.freeze(
                actor=self.actor(request), space=own.space, prefix=prefix, reason=reason, duration=_duration(body)
            )
        except freezes.TooManyFreezes:
            limit = freezes.MAX_FREEZES_PER_SPACE
            raise ApiError(409, Code.CONFLICT, f"The space has {limit} freezes already. Lift one first.") from None
        return json_response(_description(freeze), status=201)


class FreezeView(FreezeEndpoint):
    @describe(
        "lift_freeze",
        "Lift a freeze before its end",
        tag="Freezes",
        scope="locks:force",
        responses={204: None},
        errors=(404,),
    )
    def delete(self, request: Request, freeze_id: int) -> HttpResponse:
        own = self.own(request, Scope.LOCKS_FORCE)
        freeze = freezes.in_force(own.space).filter(pk=freeze_id).first()
        if freeze is None or not is_within(own, [freeze.prefix]):
            raise not_found()
        try:
            freezes.lift(actor=self.actor(request), space=own.space, freeze_id=freeze_id)
        except freezes.NotFrozen:
            raise not_found() from None
        return no_content()
