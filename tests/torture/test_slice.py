"""A short run of the torture suite; `make torture` is the long one."""

import random
from pathlib import Path

import pytest

from tests.torture import report
from tests.torture.checker import waits_in_order
from tests.torture.run import Options, torture


@pytest.mark.timeout(300)
def test_a_recorded_history_under_faults_keeps_every_promise(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    kinds = (
        "lose requests and answers", "kill backend", "cut database connections", "set the clock", "lose the primary",
    )  # fmt: skip
    options = Options(
        seconds=18, seed=seed, processes=1, clients=10, kv_clients=2, quiet_seconds=6, fault_seconds=1, pause=0.02,
        kinds=kinds,
    )  # fmt: skip
    history, violations = torture(options, tmp_path)
    assert not violations, report.summary(history, violations)
    assert history.faults
    assert waits_in_order(history) or history.stalls
    assert {op.outcome for op in history.ops} >= {"acquired", "held", "renewed", "released", "refused"}
    assert {(op.verb, op.outcome) for op in history.kv_ops} >= {("get", "ok"), ("put", "ok"), ("put", "mismatch")}
