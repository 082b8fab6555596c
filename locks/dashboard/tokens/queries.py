"""The tokens of a space as the pages list them: a filter in the address, rows out of the database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.http import QueryDict

from locks.dashboard.database import fetch
from locks.dashboard.page_number import LAST_PAGE, parse_page
from locks.models import Space

ROWS = 50
EXACT_UP_TO = 10_000
SOON = timedelta(days=14)
VERY_SOON = timedelta(days=3)


class TokenStatus(StrEnum):
    """What becomes of a token, worst first."""

    REVOKED = "revoked"
    REPLACED = "replaced"
    EXPIRED = "expired"
    ROTATED = "rotated"
    EXPIRES_VERY_SOON = "expires-very-soon"
    EXPIRES_SOON = "expires-soon"
    IN_USE = "in-use"


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
    def standing(self) -> TokenStatus:
        left = self.expires_at - self.now if self.expires_at else None
        is_over = left is not None and left <= timedelta(0)
        if self.revoked_at:
            return TokenStatus.REVOKED
        if self.rotated_at:
            return TokenStatus.REPLACED if is_over else TokenStatus.ROTATED
        if left is None or left > SOON:
            return TokenStatus.IN_USE
        if is_over:
            return TokenStatus.EXPIRED
        return TokenStatus.EXPIRES_VERY_SOON if left <= VERY_SOON else TokenStatus.EXPIRES_SOON

    @property
    def is_rotatable(self) -> bool:
        return self.standing in (TokenStatus.IN_USE, TokenStatus.EXPIRES_SOON, TokenStatus.EXPIRES_VERY_SOON)

    @property
    def is_revocable(self) -> bool:
        return self.revoked_at is None and self.standing is not TokenStatus.REPLACED

    @property
    def ended_at(self) -> datetime | None:
        return self.revoked_at or self.expires_at


@dataclass(frozen=True, kw_only=True)
class TokenFilter:
    q: str = ""
    over: bool = False
    page: int = 1

    @classmethod
    def of(cls, query: QueryDict) -> "TokenFilter":
        return cls(
            q=query.get("q", "").replace("\0", "").strip()[:128],
            over=query.get("show") == "history",
            page=parse_page(query),
        )

    def query(self, *, page: int) -> str:
        parameters = QueryDict(mutable=True)
        if self.q:
            parameters["q"] = self.q
        if self.over:
            parameters["show"] = "history"
        if page > 1:
            parameters["page"] = str(page)
        return f"?{parameters.urlencode()}" if parameters else "?"


@dataclass(frozen=True, kw_only=True)
class TokenPage:
    rows: list[TokenRow]
    previous: str | None
    next: str | None


def tokens(*, space: Space, wanted: TokenFilter) -> TokenPage:
    found = _find(space, search=wanted.q, over=wanted.over, limit=ROWS + 1, skipped=(wanted.page - 1) * ROWS)
    return TokenPage(
        rows=found[:ROWS],
        previous=wanted.query(page=wanted.page - 1) if wanted.page > 1 else None,
        next=wanted.query(page=wanted.page + 1) if len(found) > ROWS and wanted.page < LAST_PAGE else None,
    )


def find_token(*, space: Space, public_id: str) -> TokenRow | None:
    found = _find(space, public_id=public_id, limit=1)
    return found[0] if found else None


def _find(
    space: Space, *, search: str = "", public_id: str = "", over: bool = False, limit: int, skipped: int = 0
) -> list[TokenRow]:
    pattern = search.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
    return fetch(
        "tokens/tokens",
        TokenRow,
        {
            "space_id": space.pk, "public_id": public_id, "over": over, "search": search, "pattern": f"%{pattern}%",
            "rows": limit, "skipped": skipped,
        },
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Matched:
    number: int


def prefix_match_count(*, space: Space, prefixes: Sequence[str]) -> str:
    """How many locks that are held now such prefixes match, in words."""
    asked = {"space_id": space.pk, "prefixes": list(prefixes), "most": EXACT_UP_TO + 1}
    (found,) = fetch("tokens/prefix_match_count", _Matched, asked)
    return f"more than {EXACT_UP_TO:,}" if found.number > EXACT_UP_TO else f"{found.number:,}"
