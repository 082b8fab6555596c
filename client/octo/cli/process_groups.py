"""Process groups: started, signalled, seen to be gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

# Python ignores these, and a child would inherit that.
_TO_DEFAULT = [
    number
    for number in (getattr(signal, name, None) for name in ("SIGPIPE", "SIGXFSZ", "SIGTTOU", "SIGTTIN", "SIGTSTP"))
    if number is not None
]


def start(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """The command as the leader of a new group, whose number is the leader's process id."""
    return os.posix_spawnp(
        command[0], list(command), dict(environment), setpgroup=0, setsigmask=(), setsigdef=_TO_DEFAULT
    )


def send(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        # macOS says so of a group that consists of zombies.
        return True
    return False


class Terminal:
    """Hands the terminal to a group and takes it back, so that the child can be used as if there were no `octo run`."""

    def __init__(self) -> None:
        self._file: int | None = None
        with suppress(OSError):
            if os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp():
                self._file = 0
                # Handing it over from the background would stop us otherwise.
                signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    @property
    def is_ours(self) -> bool:
        return self._file is not None

    def give(self, group: int) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.tcsetpgrp(self._file, group)
            # It may have tried to read before it was its turn.
            send(group, signal.SIGCONT)

    def take_back(self) -> None:
        self.give_quietly(os.getpgrp())

    def give_quietly(self, group: int) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.tcsetpgrp(self._file, group)
