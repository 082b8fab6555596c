"""The reaper of `up`: stops what the supervisor started, should the supervisor itself be killed.

It reads a pipe whose other end only the supervisor holds: lines of `watch <group> <signal>` and `forget <group>`. The
pipe closes when the supervisor ends, however it ends. The process groups that are still watched then get their signal,
and SIGKILL after a while. Run as a script, without site-packages: it must start at once and never fail.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable

GRACE_SECONDS = 3.0


def watched_until_end(lines: Iterable[str]) -> dict[int, int]:
    """The groups that are left when the lines end, each with its stop signal."""
    watched: dict[int, int] = {}
    for line in lines:
        match line.split():
            case ["watch", group, number]:
                watched[int(group)] = int(number)
            case ["forget", group]:
                watched.pop(int(group), None)
    return watched


def send(group: int, number: int) -> bool:
    """Whether the group has processes. (macOS answers for a group of zombies with a PermissionError.)"""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def wait_until_exited(groups: Iterable[int], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while any(send(group, 0) for group in groups) and time.monotonic() < deadline:
        time.sleep(0.05)


def main() -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    watched = watched_until_end(sys.stdin)
    for group, number in watched.items():
        send(group, number)
    wait_until_exited(watched, seconds=GRACE_SECONDS)
    for group in watched:
        send(group, signal.SIGKILL)
    wait_until_exited(watched, seconds=1)


if __name__ == "__main__":
    main()
