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
    `LISTS` names the parameters that can be repeated, and how often."""

    CHOICES: ClassVar[Mapping[str, Collection[str]]] = {}
    NARROWING: ClassVar[tuple[str, ...]] = ()
    NAMES: ClassVar[Mapping[str, bool]] = {}
    LISTS: ClassVar[Mapping[str, int]] = {"open": 5}

    page: int = 1
    # The keys of the rows whose details are open.
    open: tuple[str, ...] = ()

    @classmethod
    def of(cls, query: QueryDict) -> Self:
        texts = {field.name: cls._text(query, field.name, field.default) for field in fields(cls)}
        lists = {name: tuple(map(_clean, query.getlist(name)[:limit])) for name, limit in cls.LISTS.items()}
        return cls(**{**texts, **lists, "page": parse_page(query)})

    @classmethod
    def _text(cls, query: QueryDict, name: str, default: Any) -> Any:
        text = _clean(query.get(name, "")).strip()
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

    def toggle(self, key: str, *, name: str = "open") -> tuple[str, ...]:
        """The list with the key added or removed; the oldest of too many is removed."""
        keys: tuple[str, ...] = getattr(self, name)
        if key in keys:
            return tuple(one for one in keys if one != key)
        return (*keys, key)[-self.LISTS[name] :]


def _clean(text: str) -> str:
    """Postgres stores no null character in a text."""
    return text.replace("\0", "")[:MAX_TEXT]
