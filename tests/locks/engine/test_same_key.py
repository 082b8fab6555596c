"""A retry that overtakes its first try: one request, one lease."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

pytestmark = pytest.mark.usefixtures("committed")

TRIES = 5


@pytest.mark.parametrize("verb", ["claim_next", "acquire_all", "acquire"])
def test_five_attempts_of_one_request_at_once_get_one_lease(engine, verb):
    names = [f"issue-{number}" for number in range(8)]
    for round_ in range(10):
        key = {"idempotency_digest": f"{round_:064x}", "request_digest": "bb" * 32}
        together = threading.Barrier(TRIES)

        def ask(_worker: int, key: dict = key, together: threading.Barrier = together):
            together.wait(20)
            try:
                match verb:
                    case "claim_next":
                        return [engine.claim_next(names, **key)]
                    case "acquire_all":
                        return engine.acquire_all(names, **key)
                    case _:
                        return [engine.acquire(names[0], **key)]
            finally:
                connection.close()

        with ThreadPoolExecutor(TRIES) as pool:
            answers = list(pool.map(ask, range(TRIES)))
        assert {outcome.verdict for answer in answers for outcome in answer} <= {"acquired", "recognised"}
        leases = {tuple((outcome.name, outcome.lease_id) for outcome in answer) for answer in answers}
        assert len(leases) == 1, round_
        for name, lease_id in leases.pop():
            assert engine.release(name, lease_id).verdict == "released"
