"""Sessions of the blocking client."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

from octo import errors, tied
from octo.leases import Lease, held
from octo.tenure import Status

if TYPE_CHECKING:
    from typing_extensions import Self

    from octo.client import Client


class Session(tied.SessionTenure):
    """As a context it is kept alive in the background; its end frees everything that was taken with it."""

    def __init__(self, told: dict[str, Any], *, client: Client, ttl: int, sent_at: float) -> None:
        self._client = client
        super().__init__(told, ttl=ttl, sent_at=sent_at)

    def acquire(self, name: str, **terms: Any) -> Lease:
        """As `Client.acquire`; the lease ends with the session, or with its own TTL if nobody renews it."""
        lease = self._client.acquire(name, session_id=self.session_id, **terms)
        self.tie(lease)
        return lease

    def lock(self, name: str, **terms: Any) -> AbstractContextManager[Lease]:
        return held(lambda: self.acquire(name, **terms))

    def close(self) -> None:
        """Frees its locks at once."""
        self._client.stop_keeping(self)
        if self.status is Status.HELD:
            self.closing()
            with suppress(errors.NotFound, errors.SessionExpired):
                self._client.perform(tied.end_session(self.session_id, retry_for=self._client.retry_for))
        self.end(Status.RELEASED)

    def __enter__(self) -> Self:
        self._client.keep(self)
        return self

    def __exit__(self, *_raised: object) -> None:
        with suppress(errors.Unreachable):
            self.close()
