"""Whether a rule is in its quiet hours."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from locks.models import AlertRule


def is_known_zone(name: str) -> bool:
    return name in available_timezones()


def is_quiet(rule: AlertRule, now: datetime) -> bool:
    """From `quiet_from` to `quiet_until`, which may be on the next day; the days are those on which they begin. If both
    are the same, the whole day."""
    if rule.quiet_from is None or rule.quiet_until is None:
        return False
    local = now.astimezone(_zone(rule.quiet_zone))
    time, today, yesterday = local.time(), local.isoweekday(), (local - timedelta(days=1)).isoweekday()
    days = rule.quiet_days or range(1, 8)
    if rule.quiet_from < rule.quiet_until:
        return rule.quiet_from <= time < rule.quiet_until and today in days
    return (time >= rule.quiet_from and today in days) or (time < rule.quiet_until and yesterday in days)


def _zone(name: str) -> ZoneInfo:
    """A zone that this machine no longer knows must not keep the other rules from being evaluated."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")
