"""Tokens: who am I, issue, list, rotate, revoke."""

import re
from datetime import datetime, timedelta
from typing import Annotated, Literal, TypeAlias, cast

import msgspec
from django.db import IntegrityError, transaction
from django.db.models import TextChoices
from django.db.models.functions import Now
from django.http import HttpResponse
from msgspec import Meta
from rest_framework.request import Request

from locks.actions import tokens
from locks.actions.audit import Actor
from locks.api.authentication import HoldsToken
from locks.api.endpoint import Endpoint, answer, no_content, request_id
from locks.api.errors import Code, Refusal, invalid_input, scope_missing
from locks.api.handler import not_found
from locks.api.messages import TEXT_PATTERN
from locks.api.parsing import check_text, decoder, parse_body
from locks.api.schema import OpenApiTypes, describe, query
from locks.api.usage import usage
from locks.models import Scope, Token
from locks.models.token import PRESETS

_LONGEST_OVERLAP = 30 * 86_400
VISIBLE_PATTERN = r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"

ScopeName: TypeAlias = Literal[
    "locks:read", "locks:write", "locks:force", "audit:read", "webhooks:manage", "tokens:manage"
]
PresetName: TypeAlias = Literal["worker", "observer", "operator-bot"]
Prefix: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256, extra_json_schema={"pattern": TEXT_PATTERN})]


class TokenDescription(msgspec.Struct, kw_only=True):
    public_id: str
    name: str
    scopes: list[ScopeName]
    prefixes: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class WhoAmI(msgspec.Struct, kw_only=True):
    team: str
    space: str
    token: TokenDescription
    scopes: list[ScopeName]


class TokenList(msgspec.Struct, kw_only=True):
    tokens: list[TokenDescription]


class IssueBody(msgspec.Struct, kw_only=True):
    """The scopes are those of the preset, unless `scopes` names others."""

    name: Annotated[str, Meta(min_length=1, max_length=128, extra_json_schema={"pattern": VISIBLE_PATTERN})]
    preset: PresetName = "worker"
    scopes: Annotated[list[ScopeName], Meta(min_length=1)] | None = None
    prefixes: Annotated[list[Prefix], Meta(max_length=50)] = []
    expires_in_days: Annotated[int, Meta(ge=1, le=3650)] = 90


class IssuedToken(msgspec.Struct, kw_only=True):
    """The only answer that ever contains the token."""

    token: str
    public_id: str
    expires_at: datetime | None


class RotateBody(msgspec.Struct, kw_only=True):
    overlap_seconds: Annotated[int, Meta(ge=0, le=_LONGEST_OVERLAP)] = 0


_ISSUE = decoder(IssueBody)
_ROTATE = decoder(RotateBody)


def _own(request: Request) -> Token:
    return cast(Token, request.auth)


def _scopes(token: Token) -> list[ScopeName]:
    return cast(list[ScopeName], list(token.scopes))


def _describe(token: Token) -> TokenDescription:
    return TokenDescription(
        public_id=token.public_id,
        name=token.name,
        scopes=_scopes(token),
        prefixes=list(token.prefixes),
        created_at=token.created_at,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
        last_used_at=token.last_used_at,
    )


class TokenEndpoint(Endpoint):
    authentication_classes = (HoldsToken,)
    scope: TextChoices | None = None

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        super().initial(request, *args, **kwargs)
        token = _own(request)
        usage.note(
            digest=bytes(token.digest),
            space_id=token.space_id,
            address=request.META.get("REMOTE_ADDR"),
            agent=request.META.get("HTTP_USER_AGENT", ""),
        )
        if self.scope is not None and self.scope not in token.scopes:
            raise scope_missing(self.scope)

    def actor(self, request: Request) -> Actor:
        return Actor.of_token(_own(request), address=request.META.get("REMOTE_ADDR"), request_id=request_id(request))


class WhoAmIView(TokenEndpoint):
    @describe("whoami", "What this token is", tag="Tokens", answers={200: WhoAmI})
    def get(self, request: Request) -> HttpResponse:
        token = _own(request)
        return answer(
            WhoAmI(
                team=token.space.team.slug,
                space=token.space.slug,
                token=_describe(token),
                scopes=_scopes(token),
            )
        )


class TokensView(TokenEndpoint):
    scope = Scope.TOKENS_MANAGE

    @describe(
        "list_tokens",
        "The space's tokens",
        tag="Tokens",
        scope="tokens:manage",
        answers={200: TokenList},
        errors=(422,),
        parameters=[query("revoked", OpenApiTypes.BOOL, "Whether to list revoked ones as well.")],
    )
    def get(self, request: Request) -> HttpResponse:
        known = Token.objects.filter(space_id=_own(request).space_id).order_by("-created_at", "-id")
        revoked = request.GET.get("revoked", "false").lower()
        if revoked not in ("true", "false"):
            raise invalid_input(422, "revoked must be true or false.")
        if revoked == "false":
            known = known.filter(revoked_at__isnull=True)
        own = _own(request)
        return answer(TokenList(tokens=[_describe(token) for token in known[:1000] if is_within(own, token.prefixes)]))

    @describe(
        "issue_token",
        "Issue a token for this space",
        tag="Tokens",
        scope="tokens:manage",
        body=IssueBody,
        answers={201: IssuedToken},
        errors=(409,),
        description="A token that is bound to prefixes can only issue tokens that are bound to them too.",
    )
    def post(self, request: Request) -> HttpResponse:
        own = _own(request)
        body = parse_body(request._request, _ISSUE)
        scopes = body.scopes if body.scopes is not None else PRESETS[body.preset]
        for prefix in body.prefixes:
            check_text("prefixes", prefix)
        if re.fullmatch(VISIBLE_PATTERN, body.name) is None:
            raise invalid_input(422, "name must be visible text, without control characters.")
        if not is_within(own, body.prefixes):
            raise Refusal(403, Code.FORBIDDEN, "The prefixes must be within those of the token itself.")
        now = Token.objects.values_list(Now(), flat=True).filter(pk=own.pk).get()
        try:
            with transaction.atomic():
                plaintext, token = tokens.issue(
                    actor=self.actor(request),
                    space=own.space,
                    name=body.name,
                    scopes=scopes,
                    prefixes=body.prefixes,
                    expires_at=now + timedelta(days=body.expires_in_days),
                )
        except IntegrityError:
            raise Refusal(
                409, Code.CONFLICT, f"The space has a token named '{body.name}' already. Take another name."
            ) from None
        return _issued(plaintext, token, status=201)


class TokenView(TokenEndpoint):
    scope = Scope.TOKENS_MANAGE

    @describe(
        "revoke_token",
        "Revoke a token of this space",
        tag="Tokens",
        scope="tokens:manage",
        answers={204: None},
        errors=(404,),
    )
    def delete(self, request: Request, public_id: str) -> HttpResponse:
        token = Token.objects.filter(space_id=_own(request).space_id, public_id=public_id).first()
        if (
            token is None
            or not is_within(_own(request), token.prefixes)
            or not tokens.revoke(actor=self.actor(request), token=token)
        ):
            raise not_found()
        return no_content()


class RotateView(TokenEndpoint):
    @describe(
        "rotate_token",
        "Replace this token by a new one",
        tag="Tokens",
        body=RotateBody,
        body_required=False,
        answers={200: IssuedToken},
        errors=(409,),
        description="The old token works on for `overlap_seconds`.",
    )
    def post(self, request: Request) -> HttpResponse:
        own = _own(request)
        body = parse_body(request._request, _ROTATE)
        try:
            plaintext, token = tokens.rotate(
                actor=self.actor(request), token=own, overlap=timedelta(seconds=body.overlap_seconds)
            )
        except tokens.NotRotatable:
            raise Refusal(
                409,
                Code.CONFLICT,
                "This token was rotated or revoked already. Use its successor, or ask for a new one.",
            ) from None
        return _issued(plaintext, token, status=200)


def _issued(plaintext: str, token: Token, *, status: int) -> HttpResponse:
    response = answer(
        IssuedToken(token=plaintext, public_id=token.public_id, expires_at=token.expires_at), status=status
    )
    response["Cache-Control"] = "no-store"
    return response


def is_within(own: Token, prefixes: list[str]) -> bool:
    """Whether a token with these prefixes can do nothing that is outside those of the token itself."""
    return not own.prefixes or all(
        any(prefix.startswith(allowed) for allowed in own.prefixes) for prefix in prefixes or [""]
    )
