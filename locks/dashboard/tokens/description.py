"""What a token may do, as a plain sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from locks.models import Scope

ABILITIES: dict[Scope, str] = {
    Scope.LOCKS_WRITE: "claim, renew and release locks",
    Scope.LOCKS_READ: "see locks and who holds them",
    Scope.LOCKS_FORCE: "take locks from their holders by force",
    Scope.AUDIT_READ: "read the history",
    Scope.WEBHOOKS_MANAGE: "set up webhooks",
    Scope.TOKENS_MANAGE: "issue and revoke tokens, with any rights",
}
assert set(ABILITIES) == set(Scope)
# Worth saying when they are absent.
_POWERS: dict[Scope, str] = {
    Scope.LOCKS_WRITE: "claim locks",
    Scope.LOCKS_FORCE: "take them from their holders by force",
    Scope.TOKENS_MANAGE: "issue tokens",
}


@dataclass(frozen=True, kw_only=True)
class TokenDescription:
    """In parts, so that a page can set each in its own type."""

    abilities: str
    prefixes: tuple[str, ...]
    inabilities: str
    expires_at: datetime | None


def describe_token(*, scopes: Sequence[str], prefixes: Sequence[str], expires_at: datetime | None) -> TokenDescription:
    given = set(scopes)
    return TokenDescription(
        abilities=join_words([words for scope, words in ABILITIES.items() if scope in given], "and"),
        prefixes=tuple(prefixes),
        inabilities=join_words([words for scope, words in _POWERS.items() if scope not in given], "or"),
        expires_at=expires_at,
    )


def join_words(words: Sequence[str], last: str) -> str:
    """The parts have commas and conjunctions of their own, so there is always a comma before the last."""
    return ", ".join([*words[:-1], f"{last} {words[-1]}"]) if len(words) > 1 else "".join(words)
