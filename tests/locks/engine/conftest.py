"""The engine as its callers use it, bound to Blue's space."""

from uuid import UUID

import pytest

from locks.bearer import parse
from locks.engine import outcomes, requests
from locks.engine.execution import perform
from locks.engine.operations import (
    acquire,
    acquire_all,
    claim_next,
    end_session,
    force_release,
    inspect,
    keep_alive,
    open_session,
    release,
    renew,
)


class Engine:
    """Shorthand for single requests with one token; `batch` shorthands are the operations themselves."""

    def __init__(self, token: str) -> None:
        presented = parse(token)
        assert presented is not None
        self.digest = presented.digest.hex()

    def acquire(self, name: str, **terms) -> outcomes.Acquired:
        return perform(acquire([requests.Acquire(digest=self.digest, name=name, **terms)]))[0]

    def renew(self, name: str, lease_id: UUID, **terms) -> outcomes.Renewed:
        asked = requests.Renew(digest=self.digest, name=name, lease_id=lease_id, **terms)
        return perform(renew([asked]))[0]

    def release(self, name: str, lease_id: UUID) -> outcomes.Released:
        return perform(release([requests.Release(digest=self.digest, name=name, lease_id=lease_id)]))[0]

    def force_release(self, name: str, **terms) -> outcomes.ForceReleased:
        asked = requests.ForceRelease(digest=self.digest, name=name, **{"reason": "stuck", **terms})
        return perform(force_release([asked]))[0]

    def inspect(self, name: str) -> outcomes.Inspected:
        return perform(inspect([requests.Inspect(digest=self.digest, name=name)]))[0]

    def claim_next(self, names: list[str], **terms) -> outcomes.Claimed:
        return perform(claim_next(requests.ClaimNext(digest=self.digest, names=names, **terms)))

    def open_session(self, **terms) -> outcomes.SessionSeen:
        return perform(open_session(requests.OpenSession(digest=self.digest, **terms)))

    def keep_alive(self, session_id: UUID) -> outcomes.KeptAlive:
        return perform(keep_alive([requests.OfSession(digest=self.digest, session_id=session_id)]))[0]

    def end_session(self, session_id: UUID) -> outcomes.SessionEnded:
        return perform(end_session(requests.OfSession(digest=self.digest, session_id=session_id)))

    def acquire_all(self, names: list[str], **terms) -> list[outcomes.AcquiredTogether]:
        return perform(acquire_all(requests.AcquireAll(digest=self.digest, names=names, **terms)))


@pytest.fixture
def engine(operator_token: str) -> Engine:
    """With a token that may do everything to locks."""
    return Engine(operator_token)
