"""Durations as text in their two largest units. static/js/countdown.js formats them the same way."""

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
    """For durations that are over; short ones with milliseconds or tenths of a second."""
    if milliseconds < 1_000:
        return f"{int(milliseconds)} ms"
    if milliseconds < 10_000:
        return f"{milliseconds / 1_000:.1f} s"
    return humanize(milliseconds / 1_000)
