"""The filters of a page as its query string has them. Invalid values count as absent."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from django.http import QueryDict

from locks.dashboard.page_number import parse_page
from locks.engine.names import canonical_filter
from locks.models import Space

MAX_TEXT = 256


@dataclass(frozen=True, kw_only=True)
class Filters:
    """A subclass has a text field for each parameter. `CHOICES` lists the allowed values of some; `NARROWING` names
    those that leave rows out, `NAMES` those that are names of locks, and whether only their beginnings.
    At most `MAX_OPEN` rows are open at a time."""

    CHOICES: ClassVar[Mapping[str, Collection[str]]] = {}
    NARROWING: ClassVar[tuple[str, ...]] = ()
    NAMES: ClassVar[Mapping[str, bool]] = {}
    MAX_OPEN: ClassVar[int] = 5

    page: int = 1
    # The keys of the rows whose details are open.
    open: tuple[str, ...] = ()

    @classmethod
    def of(cls, query: QueryDict) -> Self:
        texts = {field.name: cls._text(query, field.name, field.default) for field in fields(cls)}
        return cls(**{**texts, "page": parse_page(query), "open": tuple(query.getlist("open"))[: cls.MAX_OPEN]})

    @classmethod
    def _text(cls, query: QueryDict, name: str, default: Any) -> Any:
        # Postgres stores no null character in a text.
        text = query.get(name, "").replace("\0", "").strip()[:MAX_TEXT]
        return text if text and text in cls.CHOICES.get(name, (text,)) else default

    def canonical(self, space: Space) -> Self:
        """With names in the canonical form of their namespaces."""
        names: dict[str, Any] = {
            field: canonical_filter(getattr(self, field), lambda: space.namespaces, is_prefix=is_prefix)
            for field, is_prefix in self.NAMES.items()
        }
        return replace(self, **names)

    @property
    def is_filtered(self) -> bool:
        return any(getattr(self, name) for name in self.NARROWING)

    def toggle(self, key: str) -> tuple[str, ...]:
        """`open` with the row opened or closed; the oldest of too many is closed."""
        if key in self.open:
            return tuple(one for one in self.open if one != key)
        return (*self.open, key)[-self.MAX_OPEN :]
