"""The check of one part of the system: how it is, and what to do if it is not healthy."""

from dataclasses import dataclass, field

from locks.system_state.health import Health


@dataclass(frozen=True, kw_only=True)
class Check:
    key: str
    title: str
    health: Health
    text: str
    # What to do if it is not healthy.
    advice: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list)
