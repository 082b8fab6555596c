"""The check of one part of the system: how it is, and what to do if it is not healthy."""

from dataclasses import dataclass, field
from enum import StrEnum


class Health(StrEnum):
    HEALTHY = "healthy"
    WARNING = "warning"
    ACTION_REQUIRED = "action-required"

    @property
    def label(self) -> str:
        return self.value.replace("-", " ").capitalize()

    @property
    def icon(self) -> str:
        return {"healthy": "check", "warning": "expiring", "action-required": "overdue"}[self.value]


@dataclass(frozen=True, kw_only=True)
class Check:
    key: str
    title: str
    health: Health
    text: str
    # What to do if it is not healthy.
    advice: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list)


def worst(healths: list[Health]) -> Health:
    return max(healths, key=list(Health).index)


def grade(value: float, *, warning: float, critical: float) -> Health:
    if value < warning:
        return Health.HEALTHY
    return Health.WARNING if value < critical else Health.ACTION_REQUIRED
