"""Access lists of locks: which tokens of the space the principals of a request name."""

from collections.abc import Sequence

from django.db import connection
from django.db.models import Q

from locks import token_format
from locks.models import Token


class UnknownPrincipal(Exception):
    """No token of the space is meant by it, so the list could not be honoured."""


class CallerNotListed(Exception):
    """The list excludes the token that acquires the lock with it."""


def resolve(principals: Sequence[str], *, digest: bytes, must_include_caller: bool) -> list[str] | None:
    """As `user:<token name>` or `token:<public id>`, sorted. A principal without a prefix is a public id or a name; a
    bearer token stands for its public id. None if the caller's token is not valid: the statement refuses it."""
    caller = Token.objects.valid().filter(digest=digest).first()
    if caller is None:
        return None
    wanted = {principal: _name_or_id(principal) for principal in principals}
    meant = Q(name__in=wanted.values()) | Q(public_id__in=wanted.values())
    tokens = Token.objects.active().filter(meant, space_id=caller.space_id).values_list("name", "public_id")
    names, public_ids = ({token[column] for token in tokens} for column in (0, 1))
    acl = set()
    for principal, text in wanted.items():
        if not principal.startswith("user:") and text in public_ids:
            acl.add(f"token:{text}")
        elif not principal.startswith("token:") and text in names:
            acl.add(f"user:{text}")
        else:
            # A bearer token must not appear in an answer.
            raise UnknownPrincipal(text)
    resolved = sorted(acl)
    if must_include_caller and not _includes(resolved, caller):
        raise CallerNotListed
    return resolved


def _name_or_id(principal: str) -> str:
    prefix, colon, rest = principal.partition(":")
    text = rest if colon and prefix in ("user", "token") else principal
    presented = token_format.parse(text)
    return presented.public_id if presented else text


def _includes(acl: list[str], caller: Token) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT octo_acl_includes(%s, %s)", [acl, caller.pk])
        (includes,) = cursor.fetchone()
    return bool(includes)
