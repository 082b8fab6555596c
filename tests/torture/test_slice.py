"""A short run of the torture suite; `make torture` is the long one."""

import random
from pathlib import Path

import pytest

from tests.torture import report
from tests.torture.run import Options, torture

KINDS = (
    "kill server", "kill backend", "kill postmaster", "stop server", "stop postgres", "stop the holders",
    "lose requests and answers", "cut database connections", "partition from the database",
)  # fmt: skip
# These take as long as half of the others: one of them.
SLOW_KINDS = ("set the clock", "lose the primary")
FOUND = "torture/violations"


@pytest.mark.timeout(300)
def test_a_recorded_history_under_faults_keeps_every_promise(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    cache = request.config.cache
    assert cache is not None
    # Another run may well find nothing: when failed tests are repeated, a violation stays one.
    if (found := cache.get(FOUND, None)) and request.config.getoption("lf"):
        cache.set(FOUND, None)
        pytest.fail(found)
    seed = random.SystemRandom().randrange(10**6)
    kinds = (*KINDS, random.Random(seed).choice(SLOW_KINDS))
    options = Options(
        seconds=18, seed=seed, processes=1, clients=6, kv_clients=2, quiet_seconds=5, fault_seconds=0.2, pause=0.04,
        kinds=kinds, max_fault_seconds=0.5, has_quiet_spells=False,
    )  # fmt: skip
    history, judgement = torture(options, tmp_path)
    text = report.summary(history, judgement)
    cache.set(FOUND, text if judgement.violations else None)
    assert not judgement.violations, text
    missing = {kind for kind in kinds if not any(kind in each for each in history.unavailable)}
    missing -= {fault.kind for fault in history.faults if not fault.error}
    assert not missing, text
    # The faults follow each other too fast for `idle`, and a machine that is too busy stalls without a fault.
    first_fault = min(fault.began for fault in history.faults)
    is_too_busy = any(began < first_fault for began, _ in history.stalls)
    assert set(judgement.unjudged) <= {"idle", *(["order"] if is_too_busy else [])}, text
    assert {op.outcome for op in history.ops} >= {"acquired", "held", "renewed", "released", "refused"}
    assert {(op.verb, op.outcome) for op in history.kv_ops} >= {("get", "ok"), ("put", "ok"), ("put", "mismatch")}
