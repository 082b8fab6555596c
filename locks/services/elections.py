"""Leader elections without an account. A room is a lock in a space of the server's own, its leader holds the lease.

The space belongs to a team without members, so only superusers see it. All campaigns use one token, whose digest is
derived from the secret key and is not that of any bearer token: it cannot be presented over HTTP.
"""

import secrets
from collections.abc import Callable
from typing import Protocol, TypeVar

from django.db import transaction
from django.utils.crypto import salted_hmac

from locks import token_format
from locks.engine.execution import run
from locks.engine.operations import Operation
from locks.engine.verdicts import Verdict
from locks.models import ActorKind, Channel, EventKind, Scope, Space, Team, Token
from locks.services.audit import Actor, record

TEAM_SLUG = "_elections"
SPACE_SLUG = "rooms"
TOKEN_NAME = "elections"  # noqa: S105 -- a name
# Rooms with a leader, in all; superusers can change it on the page Limits of the space.
MAX_ROOMS = 10_000
TTL_SECONDS, MIN_TTL_SECONDS, MAX_TTL_SECONDS = 30, 5, 300
MAX_METADATA = 1_024


class _Result(Protocol):
    @property
    def verdict(self) -> str: ...


Result = TypeVar("Result", bound=_Result)


def digest() -> bytes:
    """Of the token that all campaigns use."""
    return salted_hmac("locks.services.elections", TOKEN_NAME, algorithm="sha256").digest()


def run_one(operation: Callable[[], Operation[list[Result]]]) -> Result:
    """The result of one request. The first request ever, or the first after a new secret key, creates the token."""
    (result,) = run(operation())
    if result.verdict == Verdict.UNAUTHENTICATED:
        token()
        (result,) = run(operation())
    return result


def rooms() -> Space | None:
    """The space of all rooms; None before the first campaign."""
    return Space.objects.select_related("team").filter(team__slug=TEAM_SLUG, slug=SPACE_SLUG).first()


@transaction.atomic
def token() -> Token:
    """Creates team, space and token where they are missing. Servers that do it at once agree on one of each."""
    actor = Actor(kind=ActorKind.SYSTEM, name="elections", channel=Channel.API)
    team, is_new = Team.objects.get_or_create(slug=TEAM_SLUG, defaults={"name": "Elections"})
    if is_new:
        record(EventKind.TEAM_CREATED, actor=actor, team=team, detail={"team": team.name, "slug": team.slug})
    space, is_new = Space.objects.get_or_create(
        team=team,
        slug=SPACE_SLUG,
        defaults={
            "name": "Rooms",
            "default_ttl_seconds": TTL_SECONDS,
            "max_ttl_seconds": MAX_TTL_SECONDS,
            "max_metadata_length": MAX_METADATA,
            "max_live_locks": MAX_ROOMS,
            "allow_non_expiring_tokens": True,
        },
    )
    if is_new:
        record(EventKind.SPACE_CREATED, actor=actor, space=space, detail={"space": space.name, "slug": space.slug})
    # A token that was revoked stays so; its successor needs the digest.
    Token.objects.filter(space=space, digest=digest(), revoked_at__isnull=False).update(digest=secrets.token_bytes(32))
    found, is_new = Token.objects.get_or_create(
        space=space,
        name=TOKEN_NAME,
        revoked_at=None,
        rotated_at=None,
        defaults={
            "public_id": token_format.generate().split("_")[1],
            "digest": digest(),
            "scopes": [Scope.LOCKS_READ.value, Scope.LOCKS_WRITE.value],
        },
    )
    if is_new:
        record(
            EventKind.TOKEN_ISSUED,
            actor=actor,
            space=space,
            token=found,
            detail={"name": found.name, "public_id": found.public_id, "scopes": list(found.scopes)},
        )
    elif bytes(found.digest) != digest():
        # The secret key has changed. The leases belong to the row, so leaders keep theirs.
        Token.objects.filter(pk=found.pk).update(digest=digest())
    return found
