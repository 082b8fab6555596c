"""The tokens of a space as the pages list them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from locks.dashboard.database import fetch
from locks.dashboard.filters import Filters
from locks.dashboard.page_number import LAST_PAGE
from locks.models import Space, Token
from locks.token_rules import EXPIRES_SOON

ROWS_PER_PAGE = 50
MAX_MATCH_COUNT = 10_000
VERY_SOON = timedelta(days=3)
SHOW_CHOICES = {"": "Current", "history": "History: revoked and replaced"}


class TokenStatus(StrEnum):
    REVOKED = "revoked"
    # Rotated, and the overlap is over.
    REPLACED = "replaced"
    EXPIRED = "expired"
    # Rotated, and valid until the overlap is over.
    ROTATED = "rotated"
    EXPIRES_VERY_SOON = "expires-very-soon"
    EXPIRES_SOON = "expires-soon"
    VALID = "valid"


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    id: int
    name: str
    public_id: str
    scopes: list[str]
    prefixes: list[str]
    created_at: datetime
    created_by: str | None
    expires_at: datetime | None
    rotated_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    last_used_address: str | None
    last_used_agent: str
    live_leases: int
    now: datetime

    @property
    def status(self) -> TokenStatus:
        remaining = self.expires_at - self.now if self.expires_at else None
        is_expired = remaining is not None and remaining <= timedelta(0)
        if self.revoked_at:
            return TokenStatus.REVOKED
        if self.rotated_at:
            return TokenStatus.REPLACED if is_expired else TokenStatus.ROTATED
        if remaining is None or remaining > EXPIRES_SOON:
            return TokenStatus.VALID
        if is_expired:
            return TokenStatus.EXPIRED
        return TokenStatus.EXPIRES_VERY_SOON if remaining <= VERY_SOON else TokenStatus.EXPIRES_SOON

    @property
    def is_rotatable(self) -> bool:
        return self.status in (TokenStatus.VALID, TokenStatus.EXPIRES_SOON, TokenStatus.EXPIRES_VERY_SOON)

    @property
    def is_revocable(self) -> bool:
        return self.status not in (TokenStatus.REVOKED, TokenStatus.REPLACED)


@dataclass(frozen=True, kw_only=True)
class TokenFilters(Filters):
    CHOICES = {"show": SHOW_CHOICES}
    NARROWING = ("q",)

    q: str = ""
    show: str = ""

    @property
    def ended(self) -> bool:
        return self.show == "history"


@dataclass(frozen=True, kw_only=True)
class TokenPage:
    rows: list[TokenRow]
    has_next: bool


def tokens(*, space: Space, filters: TokenFilters) -> TokenPage:
    offset = (filters.page - 1) * ROWS_PER_PAGE
    rows = _fetch(space, search=filters.q, ended=filters.ended, limit=ROWS_PER_PAGE + 1, offset=offset)
    return TokenPage(rows=rows[:ROWS_PER_PAGE], has_next=len(rows) > ROWS_PER_PAGE and filters.page < LAST_PAGE)


def find_token(*, space: Space, public_id: str) -> TokenRow | None:
    return next(iter(_fetch(space, public_id=public_id, limit=1)), None)


def unexpired_tokens() -> QuerySet[Token]:
    """Not revoked and not expired. Those of an archived space are valid once it is restored."""
    return Token.objects.issued().filter(Q(expires_at=None) | Q(expires_at__gt=Now()), revoked_at=None)


def _fetch(
    space: Space, *, search: str = "", public_id: str = "", ended: bool = False, limit: int, offset: int = 0
) -> list[TokenRow]:
    pattern = search.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
    return fetch(
        "tokens/tokens",
        TokenRow,
        {
            "space_id": space.pk, "public_id": public_id, "ended": ended, "search": search, "pattern": f"%{pattern}%",
            "limit": limit, "offset": offset,
        },
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Count:
    count: int


def prefix_match_count(*, space: Space, prefixes: Sequence[str]) -> str:
    """How many of the locks held now start with one of the prefixes, as text."""
    parameters = {"space_id": space.pk, "prefixes": list(prefixes), "limit": MAX_MATCH_COUNT + 1}
    (row,) = fetch("tokens/prefix_match_count", _Count, parameters)
    return f"more than {MAX_MATCH_COUNT:,}" if row.count > MAX_MATCH_COUNT else f"{row.count:,}"
