"""What a token may do, as a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from locks.models import Scope

SCOPE_DESCRIPTIONS: dict[Scope, str] = {
    Scope.LOCKS_WRITE: "claim, renew and release locks",
    Scope.LOCKS_READ: "see locks and their holders",
    Scope.LOCKS_FORCE: "force-release locks",
    Scope.AUDIT_READ: "read the history",
    Scope.WEBHOOKS_MANAGE: "manage webhooks",
    Scope.TOKENS_MANAGE: "issue and revoke tokens, with any scope",
    Scope.RUNS_MANAGE: "start and finish runs",
}
assert set(SCOPE_DESCRIPTIONS) == set(Scope)
# Named when a token lacks them.
_NOTABLE_SCOPES: dict[Scope, str] = {
    Scope.LOCKS_WRITE: "claim locks",
    Scope.LOCKS_FORCE: "force-release locks",
    Scope.TOKENS_MANAGE: "issue tokens",
}


@dataclass(frozen=True, kw_only=True)
class TokenDescription:
    """In parts, because the page formats each differently."""

    abilities: str
    prefixes: tuple[str, ...]
    inabilities: str
    expires_at: datetime | None


def describe_token(*, scopes: Sequence[str], prefixes: Sequence[str], expires_at: datetime | None) -> TokenDescription:
    granted = set(scopes)
    return TokenDescription(
        abilities=join_words([text for scope, text in SCOPE_DESCRIPTIONS.items() if scope in granted], "and"),
        prefixes=tuple(prefixes),
        inabilities=join_words([text for scope, text in _NOTABLE_SCOPES.items() if scope not in granted], "or"),
        expires_at=expires_at,
    )


def join_words(words: Sequence[str], conjunction: str) -> str:
    """With a comma before the last, because the parts contain conjunctions themselves."""
    return ", ".join([*words[:-1], f"{conjunction} {words[-1]}"]) if len(words) > 1 else "".join(words)
