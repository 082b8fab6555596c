"""Which actor of which run a token belongs to.

A token belongs to the same actor for ever, so the answer is cached. Whether the token is still valid is checked by
every statement, never here.
"""

from dataclasses import dataclass
from uuid import UUID

from locks.models import RunActorRole, Token

MAX_KNOWN = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """`name` is the `actor_id` of the API."""

    id: int
    name: str
    is_lead: bool
    run_id: UUID
    layer_id: UUID


# None: a token of another kind, which never becomes an actor's.
_known: dict[bytes, Identity | None] = {}


def known_identity(digest: bytes) -> Identity | None:
    """Without asking the database: None also for an actor that was not seen by this process yet."""
    return _known.get(digest)


def find_identity(digest: bytes) -> Identity | None:
    """None if the token is not an actor's."""
    if digest in _known:
        return _known[digest]
    token = Token.objects.select_related("run_actor").filter(digest=digest).first()
    if token is None:
        return None
    if len(_known) >= MAX_KNOWN:
        _known.clear()
    identity = _known[digest] = _identity(token)
    return identity


def _identity(token: Token) -> Identity | None:
    if token.actor_session_id is None:
        return None
    actor = token.run_actor
    return Identity(
        id=actor.pk,
        name=actor.name,
        is_lead=actor.role == RunActorRole.LEAD,
        run_id=actor.run_id,
        layer_id=actor.layer_id,
    )
