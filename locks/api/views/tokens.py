"""Endpoints for tokens: whoami, issue, list, inspect, rotate, revoke."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, TypeAlias, cast
from uuid import UUID

import msgspec
from django.db import IntegrityError, transaction
from django.db.models import TextChoices
from django.db.models.functions import Now
from django.http import HttpResponse
from msgspec import Meta
from rest_framework.request import Request

from locks.api.authentication import TokenAuthentication
from locks.api.base_view import ApiView, json_response, no_content, request_id
from locks.api.errors import ApiError, Code, invalid_input, scope_missing
from locks.api.exceptions import not_found
from locks.api.openapi_hooks import OpenApiTypes, describe, query
from locks.api.parsing import check_prefix, decoder, parse_body, query_choice, query_cursor, query_flag, query_number
from locks.api.usage_flusher import usage_flusher
from locks.engine.names import Rules
from locks.models import Scope, Space, Token
from locks.models.token import PRESETS
from locks.pagination import IdCursor, fetch_page
from locks.runs import lifecycle
from locks.runs.identities import find_identity
from locks.services import tokens
from locks.services.audit import Actor
from locks.services.force_release import held_by_token
from locks.token_rules import (
    MAX_NAME,
    MAX_PREFIX,
    MAX_PREFIXES,
    NAME_PATTERN,
    PREFIX_PATTERN,
    is_valid_name,
    is_valid_prefix,
)

_MAX_OVERLAP = 30 * 86_400
_MAX_LISTED = 1000

ScopeName: TypeAlias = Literal[
    "locks:read", "locks:write", "locks:force", "audit:read", "webhooks:manage", "tokens:manage", "runs:manage"
]
PresetName: TypeAlias = Literal["worker", "observer", "operator-bot", "orchestrator"]
Prefix: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=MAX_PREFIX, extra_json_schema={"pattern": PREFIX_PATTERN})
]


class TokenDescription(msgspec.Struct, kw_only=True):
    public_id: str
    name: str
    scopes: list[ScopeName]
    prefixes: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class ListedToken(TokenDescription, kw_only=True):
    """`created_by` is null for tokens issued by the API or `manage.py`. `superseded_at` is the time of rotation."""

    created_by: str | None
    superseded_at: datetime | None
    last_used_address: str | None
    last_used_agent: str | None
    live_leases: int


class ActorDescription(msgspec.Struct, kw_only=True):
    """The place of an actor's token in its run."""

    run_id: UUID
    layer_id: UUID
    actor_id: str
    role: Literal["lead", "worker"]


class WhoAmI(msgspec.Struct, kw_only=True):
    team: str
    space: str
    token: TokenDescription
    scopes: list[ScopeName]
    actor: ActorDescription | None


class TokenList(msgspec.Struct, kw_only=True):
    tokens: list[ListedToken]
    next_cursor: str | None


class IssueBody(msgspec.Struct, kw_only=True):
    """`scopes` replaces those of the preset."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME, extra_json_schema={"pattern": NAME_PATTERN})]
    preset: PresetName = "worker"
    scopes: Annotated[list[ScopeName], Meta(min_length=1)] | None = None
    prefixes: Annotated[list[Prefix], Meta(max_length=MAX_PREFIXES)] = []
    expires_in_days: Annotated[int, Meta(ge=1, le=3650)] = 90


class IssuedToken(msgspec.Struct, kw_only=True):
    """The only response that contains the plaintext of the token."""

    token: str
    public_id: str
    expires_at: datetime | None


class RotatedToken(IssuedToken, kw_only=True):
    """With OctoStore's fields: a pseudonym of the new token, its name, and its space."""

    user_id: UUID
    github_username: str
    namespace: str


class RevokedToken(msgspec.Struct, kw_only=True):
    """The numbers of leases released, and left to expire."""

    public_id: str
    released: int
    left: int


class RotateBody(msgspec.Struct, kw_only=True):
    overlap_seconds: Annotated[int, Meta(ge=0, le=_MAX_OVERLAP)] = 0


_ISSUE = decoder(IssueBody)
_ROTATE = decoder(RotateBody)


def _own(request: Request) -> Token:
    return cast(Token, request.auth)


def _scopes(token: Token) -> list[ScopeName]:
    return cast(list[ScopeName], list(token.scopes))


def _description(token: Token) -> dict[str, Any]:
    return {
        "public_id": token.public_id,
        "name": token.name,
        "scopes": _scopes(token),
        "prefixes": list(token.prefixes),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "last_used_at": token.last_used_at,
    }


def _listed(listed: Sequence[Token], *, space: Space) -> list[ListedToken]:
    held = held_by_token(space=space)
    return [
        ListedToken(
            **_description(token),
            created_by=token.created_by.get_username() if token.created_by else None,
            superseded_at=token.rotated_at,
            last_used_address=token.last_used_address,
            last_used_agent=token.last_used_agent or None,
            live_leases=held.get(token.pk, 0),
        )
        for token in listed
    ]


class TokenEndpoint(ApiView):
    authentication_classes = (TokenAuthentication,)
    scope: TextChoices | None = None

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        super().initial(request, *args, **kwargs)
        token = _own(request)
        usage_flusher.record(
            digest=bytes(token.digest),
            space_id=token.space_id,
            address=request.META.get("REMOTE_ADDR"),
            agent=request.META.get("HTTP_USER_AGENT", ""),
        )
        if self.scope is not None and self.scope not in token.scopes:
            raise scope_missing(self.scope)

    def rules(self, request: Request) -> Rules:
        return lambda: _own(request).space.namespaces

    def actor(self, request: Request) -> Actor:
        return Actor.of_token(_own(request), address=request.META.get("REMOTE_ADDR"), request_id=request_id(request))


class WhoAmIView(TokenEndpoint):
    @describe("whoami", "Describe this token", tag="Tokens", responses={200: WhoAmI})
    def get(self, request: Request) -> HttpResponse:
        token = _own(request)
        return json_response(
            WhoAmI(
                team=token.space.team.slug,
                space=token.space.slug,
                token=TokenDescription(**_description(token)),
                scopes=_scopes(token),
                actor=_actor(token),
            )
        )


def _actor(token: Token) -> ActorDescription | None:
    actor = find_identity(bytes(token.digest))
    if actor is None:
        return None
    role: Literal["lead", "worker"] = "lead" if actor.is_lead else "worker"
    return ActorDescription(run_id=actor.run_id, layer_id=actor.layer_id, actor_id=actor.name, role=role)


class TokensView(TokenEndpoint):
    scope = Scope.TOKENS_MANAGE

    @describe(
        "list_tokens",
        "List the tokens of the space",
        tag="Tokens",
        scope="tokens:manage",
        responses={200: TokenList},
        errors=(422,),
        parameters=[
            query("revoked", OpenApiTypes.BOOL, "Whether to include revoked tokens."),
            query("limit", {"type": "integer", "minimum": 1, "maximum": _MAX_LISTED}, f"{_MAX_LISTED} by default."),
            query("cursor", OpenApiTypes.STR, "The `next_cursor` of the previous page."),
        ],
        description="Newest first. A caller with prefixes may get fewer tokens on a page than `limit`; the last page "
        "has no `next_cursor`.",
    )
    def get(self, request: Request) -> HttpResponse:
        own = _own(request)
        known = Token.objects.issued().select_related("created_by").filter(space_id=own.space_id)
        if not query_flag(request._request, "revoked"):
            known = known.filter(revoked_at__isnull=True)
        limit = query_number(request._request, "limit", default=_MAX_LISTED, minimum=1, maximum=_MAX_LISTED)
        page = fetch_page(known, by=IdCursor, limit=limit, cursor=query_cursor(request._request, IdCursor))
        shown = [token for token in page.rows if is_within(own, token.prefixes)]
        return json_response(TokenList(tokens=_listed(shown, space=own.space), next_cursor=page.older))

    @describe(
        "issue_token",
        "Issue a token",
        tag="Tokens",
        scope="tokens:manage",
        body=IssueBody,
        responses={201: IssuedToken},
        errors=(409,),
        description="A token with prefixes can only issue tokens within them.",
    )
    def post(self, request: Request) -> HttpResponse:
        own = _own(request)
        body = parse_body(request._request, _ISSUE)
        scopes = body.scopes if body.scopes is not None else PRESETS[body.preset]
        if not all(is_valid_prefix(prefix) for prefix in body.prefixes):
            raise invalid_input(422, "prefixes must be visible text without white space and control characters.")
        if not is_valid_name(body.name):
            raise invalid_input(422, "name must be visible text without control characters.")
        prefixes = [check_prefix(prefix, self.rules(request)) for prefix in body.prefixes]
        if not is_within(own, prefixes):
            raise ApiError(403, Code.FORBIDDEN, "The prefixes must be within those of your own token.")
        now = Token.objects.values_list(Now(), flat=True).filter(pk=own.pk).get()
        try:
            with transaction.atomic():
                plaintext, token = tokens.issue(
                    actor=self.actor(request),
                    space=own.space,
                    name=body.name,
                    scopes=scopes,
                    prefixes=prefixes,
                    expires_at=now + timedelta(days=body.expires_in_days),
                )
        except IntegrityError:
            raise ApiError(
                409, Code.CONFLICT, f"The space has a token named '{body.name}'. Choose another name."
            ) from None
        issued = IssuedToken(token=plaintext, public_id=token.public_id, expires_at=token.expires_at)
        return _with_plaintext(issued, status=201)


class TokenView(TokenEndpoint):
    scope = Scope.TOKENS_MANAGE

    def token(self, request: Request, public_id: str) -> Token:
        """A token of the same space and within the prefixes of the caller; others answer 404."""
        own = _own(request)
        in_space = Token.objects.select_related("created_by", "space__team").filter(space_id=own.space_id)
        token = in_space.filter(public_id=public_id).first()
        if token is None or not is_within(own, token.prefixes):
            raise not_found()
        return token

    @describe(
        "get_token",
        "Inspect a token",
        tag="Tokens",
        scope="tokens:manage",
        responses={200: ListedToken},
        errors=(404,),
    )
    def get(self, request: Request, public_id: str) -> HttpResponse:
        (listed,) = _listed([self.token(request, public_id)], space=_own(request).space)
        return json_response(listed)

    @describe(
        "revoke_token",
        "Revoke a token",
        tag="Tokens",
        scope="tokens:manage",
        responses={200: RevokedToken, 204: None},
        errors=(404, 422),
        parameters=[
            query(
                "leases",
                {"type": "string", "enum": ["expire", "release"]},
                "What happens to its leases: `expire` lets them expire and answers 204; `release` releases them at "
                "once, including claims in progress, and answers 200 with their number.",
            )
        ],
    )
    def delete(self, request: Request, public_id: str) -> HttpResponse:
        leases = query_choice(request._request, "leases", ("expire", "release"))
        token = self.token(request, public_id)
        if token.actor_session_id is not None:
            return self.end_actor(request, token)
        result = tokens.revoke_and_release(
            actor=self.actor(request), token=token, reason=None, release=leases == "release"
        )
        if result is None:
            raise not_found()
        if leases == "expire":
            return no_content()
        return json_response(RevokedToken(public_id=token.public_id, released=result.released, left=result.left))

    def end_actor(self, request: Request, token: Token) -> HttpResponse:
        """The token of an actor is revoked with the actor, whose leases end at once."""
        try:
            lifecycle.end_actor(
                actor=self.actor(request), run_actor=token.run_actor, reason="the token of the actor was revoked"
            )
        except lifecycle.ActorNotFound:
            raise not_found() from None
        return no_content()


class RotateView(TokenEndpoint):
    @describe(
        "rotate_token",
        "Rotate this token",
        tag="Tokens",
        body=RotateBody,
        body_required=False,
        responses={200: RotatedToken},
        errors=(409,),
        description="The old token stays valid for `overlap_seconds`.",
    )
    def post(self, request: Request) -> HttpResponse:
        own = _own(request)
        body = parse_body(request._request, _ROTATE)
        if own.actor_session_id is not None:
            raise ApiError(409, Code.CONFLICT, "The token of a run's actor lives as long as the actor: join again.")
        try:
            plaintext, token = tokens.rotate(
                actor=self.actor(request), token=own, overlap=timedelta(seconds=body.overlap_seconds)
            )
        except tokens.NotRotatable:
            raise ApiError(
                409,
                Code.CONFLICT,
                "This token was rotated or revoked. Use its successor, or ask an admin of the team for a new token.",
            ) from None
        return _with_plaintext(
            RotatedToken(
                token=plaintext,
                public_id=token.public_id,
                expires_at=token.expires_at,
                user_id=tokens.user_id(token),
                github_username=token.name,
                namespace=str(own.space),
            )
        )


def _with_plaintext(message: IssuedToken, *, status: int = 200) -> HttpResponse:
    response = json_response(message, status=status)
    response["Cache-Control"] = "no-store"
    return response


def is_within(own: Token, prefixes: list[str]) -> bool:
    """Whether a token with these prefixes is limited to the prefixes of `own`."""
    return not own.prefixes or all(
        any(prefix.startswith(allowed) for allowed in own.prefixes) for prefix in prefixes or [""]
    )
