"""A lease as both clients see it: what was granted, and how long it is certainly ours."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

from octo import answers, errors, paths
from octo.steps import Request
from octo.tenure import Status, Tenure
from octo.terms import DEFAULT_TTL, Terms


def seconds_left(told: dict[str, Any], *, ttl: int | None) -> float:
    """From when the server answered. `renew_after_ms` is half of what was left then, by the server's own clock."""
    after = told.get("renew_after_ms")
    return after * 2 / 1000 if isinstance(after, int) else float(ttl or DEFAULT_TTL)


class Grant(Tenure):
    """A lease that was granted to us."""

    def __init__(self, told: dict[str, Any], *, terms: Terms, sent_at: float, name: str | None = None) -> None:
        self.name: str = told.get("name") or name or ""
        self.lease_id: str = str(told["lease_id"])
        self.fencing_token: int = int(told.get("fencing_token") or 0)
        self.owner: str | None = told.get("owner", terms.owner)
        self.metadata: str | None = told.get("metadata", terms.metadata)
        self.ttl = terms.ttl
        self.session_id = terms.session_id
        self.acquired_at: datetime | None = answers.time(told.get("acquired_at"))
        self.expires_at: datetime | None = answers.time(told.get("expires_at"))
        self._pid = os.getpid()
        super().__init__(sent_at=sent_at, left=seconds_left(told, ttl=terms.ttl))

    def __repr__(self) -> str:
        # The lease id is a secret.
        return f"<{type(self).__name__} {self.name} fencing_token={self.fencing_token} {self.status.value}>"

    @property
    def item(self) -> dict[str, Any] | None:
        item: dict[str, Any] = {"name": self.name, "lease_id": self.lease_id}
        return item if self.ttl is None else {**item, "ttl_seconds": self.ttl}

    @property
    def is_ours(self) -> bool:
        """False in a child that was forked while the lease was held: it belongs to the parent."""
        return self._pid == os.getpid()

    def renewal(self, *, timeout: float) -> Request:
        body: dict[str, Any] = {"lease_id": self.lease_id}
        if self.ttl is not None:
            body["ttl_seconds"] = self.ttl
        return Request("POST", paths.lock(self.name, "renew"), body, timeout=timeout)

    def left_of(self, told: Any) -> float:
        told = told if isinstance(told, dict) else {}
        self.expires_at = answers.time(told.get("expires_at")) or self.expires_at
        return seconds_left(told, ttl=self.ttl)

    def check(self) -> None:
        """Raises unless the lease is certainly ours. For loops: ask before each step that must be exclusive."""
        if (over := self.problem()) is not None:
            raise over

    def problem(self) -> errors.LeaseOver | None:
        status = self.status
        if status is Status.UNCERTAIN:
            return errors.LeaseUncertain(f"The lease of {self.name} may be over. {self.why_over}", name=self.name)
        if status is not Status.HELD:
            why = self.why_over or "It was released."
            return errors.LeaseLost(f"The lease of {self.name} is over. {why}", name=self.name)
        return None
