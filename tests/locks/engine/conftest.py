"""The engine as its callers use it, bound to Blue's space."""

from uuid import UUID

import pytest

from locks.engine import requests, results
from locks.engine.execution import run
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
from locks.token_format import parse


class Engine:
    """Shorthand for single requests with one token; `batch` shorthands are the operations themselves."""

    def __init__(self, token: str) -> None:
        presented = parse(token)
        assert presented is not None
        self.digest = presented.digest.hex()

    def acquire(self, name: str, **terms) -> results.Acquired:
        return run(acquire([requests.Acquire(digest=self.digest, name=name, **terms)]))[0]

    def renew(self, name: str, lease_id: UUID, **terms) -> results.Renewed:
        request = requests.Renew(digest=self.digest, name=name, lease_id=lease_id, **terms)
        return run(renew([request]))[0]

    def release(self, name: str, lease_id: UUID) -> results.Released:
        return run(release([requests.Release(digest=self.digest, name=name, lease_id=lease_id)]))[0]

    def force_release(self, name: str, **terms) -> results.ForceReleased:
        request = requests.ForceRelease(digest=self.digest, name=name, **{"reason": "stuck", **terms})
        return run(force_release([request]))[0]

    def inspect(self, name: str) -> results.Inspected:
        return run(inspect([requests.Inspect(digest=self.digest, name=name)]))[0]

    def claim_next(self, names: list[str], **terms) -> results.Claimed:
        return run(claim_next(requests.ClaimNext(digest=self.digest, names=names, **terms)))

    def open_session(self, **terms) -> results.SessionRow:
        return run(open_session(requests.OpenSession(digest=self.digest, **terms)))

    def keep_alive(self, session_id: UUID) -> results.KeptAlive:
        return run(keep_alive([requests.SessionRef(digest=self.digest, session_id=session_id)]))[0]

    def end_session(self, session_id: UUID) -> results.SessionEnded:
        return run(end_session(requests.SessionRef(digest=self.digest, session_id=session_id)))

    def acquire_all(self, names: list[str], **terms) -> list[results.AcquireAllRow]:
        return run(acquire_all(requests.AcquireAll(digest=self.digest, names=names, **terms)))


@pytest.fixture
def engine(operator_token: str) -> Engine:
    """With a token that may do everything to locks."""
    return Engine(operator_token)
