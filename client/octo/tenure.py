"""Something that is ours until a deadline, unless we renew it: a lease, a session.

The deadline is counted from when the request was sent, so it is never later than the server's own. Whoever has
passed it must stop, whatever the server would say: that is what makes silence safe.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeAlias

from octo import clock
from octo.exchange import backoff
from octo.steps import Request


class Status(Enum):
    """LOST: the server said that it is over. UNCERTAIN: we could not ask in time, and must take it for over."""

    HELD = "held"
    RELEASED = "released"
    LOST = "lost"
    UNCERTAIN = "uncertain"


class Happening(Enum):
    """What observers are told."""

    RENEWED = "renewed"
    RENEW_FAILED = "renew_failed"
    RELEASED = "released"
    LOST = "lost"
    UNCERTAIN = "uncertain"


Observer: TypeAlias = Callable[[Happening, "Tenure", str], None]


class Tenure(ABC):
    """Thread-safe. Once it is in somebody's hands and over, it stays over: nothing makes it HELD again."""

    def __init__(self, *, sent_at: float, left: float) -> None:
        self._guard = threading.Lock()
        self._status = Status.HELD
        self._closing = False
        self._failures = 0
        self._deadline = 0.0
        self._renew_at = 0.0
        self._observers: list[Observer] = []
        self._prolong(sent_at=sent_at, left=left)
        self.why_over = ""

    @property
    def deadline(self) -> float:
        """On `octo.clock`."""
        return self._deadline

    @property
    def renew_at(self) -> float:
        return self._renew_at

    @property
    def remaining(self) -> float:
        """Seconds for which it is certainly ours; 0 when it is over."""
        return max(0.0, self._deadline - clock.now()) if self.status is Status.HELD else 0.0

    @property
    def status(self) -> Status:
        self.expire()
        return self._status

    def observe(self, observer: Observer) -> None:
        self._observers.append(observer)

    @property
    def item(self) -> dict[str, Any] | None:
        """What stands for it in a request that renews many; None if it cannot be renewed along with others."""
        return None

    @abstractmethod
    def renewal(self, *, timeout: float) -> Request: ...

    def renewed(self, told: Any, *, sent_at: float) -> None:
        """The server has prolonged it. An answer that comes after the deadline comes too late."""
        if self.expire() or self._closing:
            return
        with self._guard:
            if self._status is not Status.HELD:
                return
            self._prolong(sent_at=sent_at, left=self.left_of(told))
        self._tell(Happening.RENEWED, "")

    def start_anew(self, told: Any, *, sent_at: float) -> None:
        """Before anybody counts on it: the deadline that a later answer gives, whatever became of the first."""
        with self._guard:
            self._status = Status.HELD
            self._prolong(sent_at=sent_at, left=self.left_of(told))

    @abstractmethod
    def left_of(self, told: Any) -> float:
        """How many seconds the server's answer gives, from when it was given."""

    def missed(self, why: str) -> None:
        """An attempt to renew has failed, and that says nothing: there will be another."""
        with self._guard:
            if self._status is not Status.HELD or self._closing:
                return
            now = clock.now()
            self._failures += 1
            self._renew_at = now + min(backoff(self._failures), max(0.05, (self._deadline - now) / 4))
        self._tell(Happening.RENEW_FAILED, why)

    def refused(self, why: str) -> None:
        """The server says that it is over. Not so if we are giving it back: the two may overtake each other."""
        if not self._closing:
            self.end(Status.LOST, why)

    def closing(self) -> None:
        """From now on what becomes of renewals does not matter."""
        self._closing = True

    def expire(self) -> bool:
        """Whether it is over; notices that the deadline has passed."""
        if self._status is Status.HELD and clock.now() >= self._deadline:
            self.end(Status.UNCERTAIN, "It could not be renewed before it had to be taken for over.")
        return self._status is not Status.HELD

    def end(self, status: Status, why: str = "") -> None:
        with self._guard:
            if self._status is not Status.HELD:
                return
            self._status = status
            self.why_over = why
        self.over(status)
        self._tell(Happening(status.value), why)

    def over(self, status: Status) -> None:  # noqa: B027  -- not all of them want to know
        """For subclasses; before observers are told."""

    def _prolong(self, *, sent_at: float, left: float) -> None:
        self._failures = 0
        self._deadline = max(self._deadline, sent_at + left)
        now = clock.now()
        self._renew_at = now + max(0.0, self._deadline - now) / 2

    def _tell(self, happening: Happening, detail: str) -> None:
        for observer in tuple(self._observers):
            _call(observer, happening, self, detail)


def _call(observer: Observer, happening: Happening, tenure: Tenure, detail: str) -> None:
    try:
        observer(happening, tenure, detail)
    except Exception:
        # Somebody's callback must not end the renewals of everybody.
        import logging

        logging.getLogger("octo").exception("a callback of a lease failed")
