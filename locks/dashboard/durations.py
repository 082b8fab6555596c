"""Spans of time in words: the two largest units. static/js/countdown.js says the same as it ticks."""

MINUTE, HOUR, DAY = 60, 3_600, 86_400


def humanize(seconds: float) -> str:
    whole = max(0, int(seconds))
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE:02} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE:02} min"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def humanize_ms(milliseconds: float) -> str:
    """For what is over, where the small unit no longer matters."""
    if milliseconds < 1_000:
        return f"{int(milliseconds)} ms"
    if milliseconds < 10_000:
        return f"{milliseconds / 1_000:.1f} s"
    return humanize(milliseconds / 1_000)
