"""Bearer tokens in the Authorization header.

`TokenFormatAuthentication` checks format and checksum only: the engine's statement authenticates the token in the round
trip that does the work. `TokenAuthentication` queries the database, for views that do not use the engine.
"""

from typing import Any

import structlog
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from locks import token_format
from locks.api.errors import authentication_failed, authentication_required
from locks.api.limits import limits
from locks.models import Token
from locks.token_format import PresentedToken


def check_credentials(authorization: str, address: str | None) -> PresentedToken:
    """Raises ApiError for what the head alone shows: no token, a malformed one, too many invalid ones from the address.
    Takes nothing from the token's limit."""
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "bearer" or not credentials:
        raise authentication_required()
    presented = token_format.parse(credentials.strip())
    limits.check_address(address, presented.digest if presented else None)
    if presented is None:
        limits.record_failure(address, None)
        raise authentication_failed()
    return presented


def presented_token(request: Any) -> PresentedToken:
    """Of a request of Django or DRF."""
    presented = check_credentials(request.META.get("HTTP_AUTHORIZATION", ""), request.META.get("REMOTE_ADDR"))
    limits.check_token(presented.digest)
    structlog.contextvars.bind_contextvars(token=presented.public_id)
    return presented


class TokenFormatAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[None, PresentedToken]:
        return None, presented_token(request)


class TokenAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[None, Token]:
        presented = presented_token(request)
        token = Token.objects.valid().select_related("space__team").filter(digest=presented.digest).first()
        if token is None:
            limits.record_failure(request.META.get("REMOTE_ADDR"), presented.digest)
            raise authentication_failed()
        limits.set_rate(presented.digest, space_id=token.space_id, requests_per_second=token.space.requests_per_second)
        structlog.contextvars.bind_contextvars(team=token.space.team.slug)
        return None, token
