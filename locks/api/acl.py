"""Access lists in requests: OctoStore's form `{"acquire": [...]}`, or the list alone."""

from collections.abc import Sequence

from locks.api import schemas
from locks.api.errors import invalid_input
from locks.services import acl

MAX_PRINCIPALS = 100
MAX_PRINCIPAL = 256


def principals(value: schemas.Acl | list[str]) -> list[str]:
    """Sorted. Raises ApiError for what no list can contain."""
    listed = value.acquire if isinstance(value, schemas.Acl) else value
    if not 1 <= len(listed) <= MAX_PRINCIPALS:
        raise invalid_input(400, f"acl must list 1 to {MAX_PRINCIPALS} tokens.")
    for principal in listed:
        if not principal or len(principal) > MAX_PRINCIPAL or "\0" in principal:
            raise invalid_input(400, f"acl lists names or public ids of tokens, of 1 to {MAX_PRINCIPAL} characters.")
    return sorted(set(listed))


def resolve(listed: Sequence[str], *, digest: bytes, must_include_caller: bool) -> list[str] | None:
    """Raises ApiError for a list that could not be honoured."""
    try:
        return acl.resolve(listed, digest=digest, must_include_caller=must_include_caller)
    except acl.UnknownPrincipal as unknown:
        raise invalid_input(
            400, f"acl: this space has no token {str(unknown)!r}. List names or public ids of valid tokens."
        ) from None
    except acl.CallerNotListed:
        raise invalid_input(400, "acl does not include the token that acquires the lock. List it as well.") from None
