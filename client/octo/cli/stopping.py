"""When work must be told to stop so that it has stopped before its lease can have another owner."""

from __future__ import annotations

from typing import NamedTuple

GRACE_SECONDS = 5.0
LONGEST_MARGIN = 1.0


class StopTimes(NamedTuple):
    """On `octo.clock`: when to ask (SIGTERM), and when to insist (SIGKILL)."""

    term_at: float
    kill_at: float


def stop_times(*, deadline: float, ttl: float) -> StopTimes:
    """Five seconds between the two where the lease is long enough; a quarter of a short one. The margin before the
    deadline is for the kernel to carry it out."""
    grace = min(GRACE_SECONDS, ttl / 4)
    margin = min(LONGEST_MARGIN, ttl / 20)
    kill_at = deadline - margin
    return StopTimes(kill_at - grace, kill_at)
