"""The guard of `up`: ends what the supervisor started, should the supervisor be killed before it can.

It reads a pipe whose other end only the supervisor holds: lines of `watch <group> <signal>` and
`forget <group>`. The pipe closes when the supervisor ends, however it ends; the groups still watched are then
asked to stop, and made to. Run as a script, without site-packages: it must start in no time and never fail.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable

PATIENCE_SECONDS = 3.0


def watched_until_end(lines: Iterable[str]) -> dict[int, int]:
    """The groups that are left when the lines end, each with the signal that asks it to stop."""
    watched: dict[int, int] = {}
    for line in lines:
        match line.split():
            case ["watch", group, number]:
                watched[int(group)] = int(number)
            case ["forget", group]:
                watched.pop(int(group), None)
    return watched


def send(group: int, number: int) -> bool:
    """Whether there was somebody in the group. (macOS answers a group of zombies with a PermissionError.)"""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def wait_gone(groups: Iterable[int], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while any(send(group, 0) for group in groups) and time.monotonic() < deadline:
        time.sleep(0.05)


def main() -> None:
    for ours_to_survive in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ours_to_survive, signal.SIG_IGN)
    watched = watched_until_end(sys.stdin)
    for group, number in watched.items():
        send(group, number)
    wait_gone(watched, seconds=PATIENCE_SECONDS)
    for group in watched:
        send(group, signal.SIGKILL)
    wait_gone(watched, seconds=1)


if __name__ == "__main__":
    main()
