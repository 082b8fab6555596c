"""Sessions: one running process, and the leases that live only as long as it does."""

from __future__ import annotations

from typing import Any

from octo import answers, errors
from octo.exchange import Answer, exchange
from octo.grants import Grant
from octo.steps import Call, Request
from octo.tenure import Happening, Status, Tenure

DEFAULT_SESSION_TTL = 60


class SessionTenure(Tenure):
    """Kept alive like a lease is renewed. When it is over, so are its leases."""

    def __init__(self, told: dict[str, Any], *, ttl: int, sent_at: float) -> None:
        self.session_id: str = told["session_id"]
        self.ttl = ttl
        self.expires_at = answers.time(told.get("expires_at"))
        self._leases: list[Grant] = []
        super().__init__(sent_at=sent_at, left=ttl)
        self.observe(self._end_leases)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.status.value}>"

    def renewal(self, *, timeout: float) -> Request:
        return Request("POST", f"/sessions/{self.session_id}/keepalive", {}, timeout=timeout)

    def left_of(self, told: Any) -> float:
        self.expires_at = answers.time(told.get("expires_at")) or self.expires_at
        return float(self.ttl)

    def tie(self, lease: Grant) -> None:
        self._leases = [other for other in self._leases if other.status is Status.HELD]
        self._leases.append(lease)

    def _end_leases(self, happening: Happening, _tenure: Tenure, _detail: str) -> None:
        if happening in (Happening.RENEWED, Happening.RENEW_FAILED):
            return
        for lease in self._leases:
            lease.end(Status(happening.value), "Its session is over.")


def open_session(
    *, ttl: int, owner: str | None, metadata: str | None, retry_for: float
) -> Call[tuple[dict[str, Any], float]]:
    body = {"ttl_seconds": ttl, "owner": owner, "metadata": metadata}
    # A session that was opened and never heard of ends by itself, so opening another does no harm.
    request = Request("POST", "/sessions", {field: value for field, value in body.items() if value is not None})
    answer: Answer = yield from exchange(request, retry_for=retry_for)
    return answer.body, answer.sent_at


def keep_session(session_id: str, *, retry_for: float) -> Call[answers.SessionInfo]:
    answer: Answer = yield from exchange(Request("POST", f"/sessions/{session_id}/keepalive", {}), retry_for=retry_for)
    return answers.read(answers.SessionInfo, answer.body)


def end_session(session_id: str, *, retry_for: float) -> Call[None]:
    try:
        yield from exchange(Request("DELETE", f"/sessions/{session_id}"), retry_for=retry_for)
    except (errors.NotFound, errors.SessionExpired) as problem:
        if not problem.repeated:
            raise


def inspect_session(session_id: str, *, retry_for: float) -> Call[answers.SessionInfo]:
    answer: Answer = yield from exchange(Request("GET", f"/sessions/{session_id}"), retry_for=retry_for)
    return answers.read(answers.SessionInfo, answer.body)


def sessions(*, retry_for: float) -> Call[list[answers.SessionInfo]]:
    answer: Answer = yield from exchange(Request("GET", "/sessions"), retry_for=retry_for)
    return [answers.read(answers.SessionInfo, told) for told in answer.body["sessions"]]
