"""Claim and release by all contenders in short alternating turns; medians count.

Goals are ratios of the fast path to another contender. A turn's ratio compares neighbouring samples, so that what slows
the machine for a while slows both.
"""

import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench import dependencies
from bench.contenders import DRF_PATH, ETCD, ETCD_SHARED, FAST_PATH, SPECS, Contender, Spec
from bench.processes import PeakMemory, cpu_seconds
from bench.samples import Sample
from bench.setup import Environment

CONNECTIONS = (1, 16, 64, 256)
# Minimum ratio by contender and number of connections.
GOALS = {(ETCD, 64): 2.0, (ETCD_SHARED, 64): 1.2, (DRF_PATH, 64): 6.0, (ETCD, 1): 0.9}
# The turns of a round: all contenders at each number of connections, and between them, because their ratios must be
# stable, only those with a goal there.
ALL, WITH_GOAL = "all", "with goal"
TURNS = (
    (1, ALL), (64, WITH_GOAL), (1, WITH_GOAL), (16, ALL), (1, WITH_GOAL), (64, ALL), (1, WITH_GOAL),
    (64, WITH_GOAL), (256, ALL), (1, WITH_GOAL),
)  # fmt: skip
ROUNDS = 2
SECONDS = 2


@dataclass
class Result:
    """Samples by number of connections and turn; CPU in microseconds per pair at 64 connections."""

    spec: Spec
    samples: dict[int, dict[int, Sample]] = field(default_factory=dict)
    cpu_us: list[float] = field(default_factory=list)

    def median(self, connections: int, attribute: str) -> float:
        return float(statistics.median(getattr(sample, attribute) for sample in self.samples[connections].values()))

    def pairs(self, connections: int = 64) -> float:
        return self.median(connections, "pairs_per_second")


@dataclass
class Comparison:
    results: dict[str, Result]
    left_out: list[str]
    peak_memory: dict[str, float]

    def ratio(self, other: str, connections: int = 64) -> float | None:
        """Fast path ÷ other, the median over the turns in which both ran; None if it was left out."""
        if other not in self.results:
            return None
        ours, theirs = (self.results[name].samples[connections] for name in (FAST_PATH, other))
        return statistics.median(
            ours[turn].pairs_per_second / max(sample.pairs_per_second, 0.1) for turn, sample in theirs.items()
        )


def compare(
    environment: Environment,
    *,
    specs: Sequence[Spec] = SPECS,
    turns: Sequence[tuple[int, str]] = TURNS * ROUNDS,
    seconds: int = SECONDS,
) -> Comparison:
    results: dict[str, Result] = {}
    left_out = []
    with ExitStack() as stack:
        contenders: dict[str, Contender] = {}
        for spec in specs:
            if spec.requires is not None and not dependencies.is_available(spec.requires):
                left_out.append(f"{spec.name}: {spec.requires} is not installed")
                continue
            contenders[spec.name] = stack.enter_context(spec.start(environment))
            results[spec.name] = Result(spec)
        for contender in contenders.values():  # prepares statements and creates names
            contender.load(64, 1)
        watched = {"PostgreSQL": environment.postgres}
        watched |= {
            name: contender.process
            for name, contender in contenders.items()
            if contender.process is not environment.postgres
        }
        memory = stack.enter_context(PeakMemory(watched))
        for turn, (connections, which) in enumerate(turns):
            names = [name for name in contenders if which == ALL or name == FAST_PATH or (name, connections) in GOALS]
            for name in names if turn % 2 else reversed(names):
                print(f"\rturn {turn + 1}/{len(turns)}: {connections:>3} × {name:<40}", end="", file=sys.stderr)
                _take_sample(environment, contenders[name], results[name], turn, connections, seconds)
        print(f"\r{'':60}\r", end="", file=sys.stderr)
        return Comparison(results, left_out, dict(memory.peaks))


def _take_sample(
    environment: Environment, contender: Contender, result: Result, turn: int, connections: int, seconds: int
) -> None:
    processes = {contender.process, environment.postgres} if contender.uses_postgres else {contender.process}
    cpu_before = sum(map(cpu_seconds, processes))
    sample = contender.load(connections, seconds)
    cpu = sum(map(cpu_seconds, processes)) - cpu_before
    result.samples.setdefault(connections, {})[turn] = sample
    # The backends that serve pgbench end with it, so their CPU time is not known afterwards.
    if connections == 64 and contender.process is not environment.postgres:
        result.cpu_us.append(cpu / max(sample.pairs_per_second * seconds, 1) * 1e6)
