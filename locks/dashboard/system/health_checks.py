"""A part of the system, what to think of it in a word, and what to do when it is not fine."""

from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    FINE = "fine"
    WATCH = "watch"
    BAD = "bad"

    @property
    def word(self) -> str:
        return {"fine": "Fine", "watch": "Have an eye on it", "bad": "Needs you"}[self.value]

    @property
    def icon(self) -> str:
        return {"fine": "check", "watch": "expiring", "bad": "overdue"}[self.value]


@dataclass(frozen=True, kw_only=True)
class Check:
    key: str
    title: str
    verdict: Verdict
    sentence: str
    # What to do when it is not fine.
    advice: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list)


def worst(checks: list[Check]) -> Verdict:
    found = {check.verdict for check in checks}
    return next(verdict for verdict in (Verdict.BAD, Verdict.WATCH, Verdict.FINE) if verdict in found)


def grade(value: float, *, late: float, bad: float) -> Verdict:
    return Verdict.FINE if value < late else Verdict.WATCH if value < bad else Verdict.BAD
