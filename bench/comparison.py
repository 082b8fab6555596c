"""Claim and release on all sides, in short turns one after the other, again and again: the median counts."""

import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench import peers
from bench.processes import PeakMemory, cpu_seconds
from bench.sides import KINDS, Kind, Place, Side
from bench.slices import Slice

CONNECTIONS = (1, 16, 64, 256)
# A round, from turn to turn. What we hold ourselves to is at 64, so these are measured most often.
VISITS = (1, 64, 16, 64, 256, 64)
ROUNDS = 2
SECONDS = 2


@dataclass
class Measured:
    """By connections, the turns of a side; and at 64 connections the CPU it took for a pair, in microseconds."""

    kind: Kind
    slices: dict[int, list[Slice]] = field(default_factory=dict)
    cpu_us: list[float] = field(default_factory=list)

    def median(self, connections: int, what: str) -> float:
        return statistics.median(getattr(one, what) for one in self.slices[connections])

    def pairs(self, connections: int = 64) -> float:
        return self.median(connections, "pairs_per_second")


@dataclass
class Comparison:
    sides: dict[str, Measured]
    left_out: list[str]
    peaks: dict[str, float]

    def ratio(self, other: str, connections: int = 64) -> float | None:
        """Fast lane ÷ other, turn by turn, so that what slows the machine slows both."""
        if other not in self.sides:
            return None
        ours = self.sides["fast lane"].slices[connections]
        theirs = self.sides[other].slices[connections]
        return statistics.median(
            a.pairs_per_second / max(b.pairs_per_second, 0.1) for a, b in zip(ours, theirs, strict=True)
        )


def compare(place: Place, *, rounds: int = ROUNDS, seconds: int = SECONDS, only: Sequence[str] = ()) -> Comparison:
    measured: dict[str, Measured] = {}
    left_out = []
    with ExitStack() as stack:
        sides: list[Side] = []
        for kind in KINDS:
            if only and kind.name not in only:
                continue
            if kind.needs is not None and peers.get(kind.needs) is None:
                left_out.append(f"{kind.name}: {kind.needs} cannot be had here")
                continue
            sides.append(stack.enter_context(kind.start(place)))
            measured[kind.name] = Measured(kind)
        watched = {"PostgreSQL": place.postgres}
        watched |= {side.name: side.processes[0] for side in sides if side.processes[0] is not place.postgres}
        for side in sides:  # the first requests prepare statements and make names
            side.load(64, 1)
        memory = stack.enter_context(PeakMemory(watched))
        for round_ in range(rounds):
            for connections in VISITS:
                for side in sides:
                    print(f"\rround {round_ + 1}/{rounds}: {connections:>3} × {side.name:<40}", end="", file=sys.stderr)
                    _turn(side, measured[side.name], connections, seconds)
        print(f"\r{'':60}\r", end="", file=sys.stderr)
        return Comparison(measured, left_out, dict(memory.peaks))


def _turn(side: Side, measured: Measured, connections: int, seconds: int) -> None:
    before = sum(cpu_seconds(process) for process in side.processes)
    done = side.load(connections, seconds)
    used = sum(cpu_seconds(process) for process in side.processes) - before
    measured.slices.setdefault(connections, []).append(done)
    if connections == 64:
        measured.cpu_us.append(used / max(done.pairs_per_second * seconds, 1) * 1e6)
