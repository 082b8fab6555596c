"""Durations as people write them: `90`, `30s`, `15m`, `1h`, `1h30m`."""

import re

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PATTERN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)


def parse_duration(text: str) -> int:
    """Whole seconds. Raises ValueError with a sentence that says what is expected."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return int(text)
    match = _PATTERN.fullmatch(text)
    if not text or match is None:
        raise ValueError(f"{text!r} is not a duration; write 90, 30s, 15m, 1h or 1h30m")
    return sum(int(count) * unit for count, unit in zip(match.groups(), _UNITS.values(), strict=True) if count)


def format_duration(seconds: float) -> str:
    """As in "expires in 25m": the two largest units, and seconds only below ten minutes."""
    left = max(0, int(seconds))
    if left >= 600:
        left -= left % 60
    parts = []
    for name, unit in _UNITS.items():
        count, left = divmod(left, unit)
        if count:
            parts.append(f"{count}{name}")
    return "".join(parts[:2]) or "0s"
