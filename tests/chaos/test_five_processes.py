"""Five processes acquire one name at once, a hundred rounds: one winner each, and the others get its owner."""

from itertools import pairwise

import pytest

from tests.chaos.contention import ClaimResult, race

CONTENDERS = 5
ROUNDS = 100
NAME = "deploy-main"

pytestmark = pytest.mark.usefixtures("committed")


class ThroughTheEngine:
    def __init__(self, number: int, token: str) -> None:
        import django

        django.setup()
        from tests.locks.engine.conftest import Engine

        self._number = number
        self._engine = Engine(token)
        self._engine.inspect(NAME)

    def claim(self, *, owner: str, metadata: str) -> ClaimResult:
        self._answer = self._engine.acquire(NAME, owner=owner, metadata=metadata, ttl_seconds=60)
        return ClaimResult(
            contender=self._number,
            status=self._answer.verdict,
            owner=self._answer.owner,
            metadata=self._answer.metadata,
            fencing_token=self._answer.fencing_token,
        )

    def release(self) -> None:
        assert self._engine.release(NAME, self._answer.lease_id).verdict == "released"

    def close(self) -> None:
        from django.db import connection

        connection.close()


def assert_one_winner_each(rounds: list[list[ClaimResult]]) -> None:
    assert len(rounds) == ROUNDS
    tokens = []
    for turn, results in enumerate(rounds):
        (winner,) = [one for one in results if one.status == "acquired"]
        assert (winner.owner, winner.metadata) == (f"contender-{winner.contender}", f"round {turn}")
        losers = [one for one in results if one is not winner]
        assert len(losers) == CONTENDERS - 1
        for loser in losers:
            assert (loser.status, loser.owner, loser.metadata) == ("held", winner.owner, winner.metadata)
            assert loser.fencing_token == winner.fencing_token
        tokens.append(winner.fencing_token)
    assert all(later > earlier for earlier, later in pairwise(tokens))


@pytest.mark.long
def test_five_processes_through_the_engine(worker_token):
    assert_one_winner_each(race(ThroughTheEngine, worker_token, contenders=CONTENDERS, rounds=ROUNDS))
