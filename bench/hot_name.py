"""One name that everybody wants: 64 connections ask for it again and again; whoever has it gives it back at once."""

import statistics
from collections.abc import Iterator
from contextlib import ExitStack

from bench import wrk
from bench.sides import Place, octoadmin_server
from bench.slices import Slice

CONNECTIONS = 64
ROUNDS = 2
SECONDS = 2
LANES = {"fast lane": "1", "DRF lane": "0"}


def measure(place: Place) -> dict[str, list[Slice]]:
    """What is refused counts as failed there."""
    turns: dict[str, list[Slice]] = {lane: [] for lane in LANES}
    with ExitStack() as stack:
        ports = {
            lane: stack.enter_context(octoadmin_server(place, f"hot {lane}", OCTO_BATCHING=setting))[0]
            for lane, setting in LANES.items()
        }
        for round_ in range(ROUNDS + 1):
            for lane, port in ports.items():
                done = wrk.run(
                    "octoadmin.lua", url=f"http://127.0.0.1:{port}", connections=CONNECTIONS, seconds=SECONDS,
                    steps_per_pair=2, environment={"TOKEN": place.token, "NAMES": "1"},
                )  # fmt: skip
                if round_:  # the first prepares statements
                    turns[lane].append(done)
    return turns


def lines(turns: dict[str, list[Slice]]) -> Iterator[str]:
    yield "| lane | pairs/s | refused/s | p50 | p99 |"
    yield "|---|---:|---:|---:|---:|"
    for lane, slices in turns.items():
        pairs = statistics.median(one.pairs_per_second for one in slices)
        refused = statistics.median(one.failed / SECONDS for one in slices)
        p50, p99 = (statistics.median(getattr(one, what) for one in slices) for what in ("p50_ms", "p99_ms"))
        yield f"| {lane} | {pairs:,.0f} | {refused:,.0f} | {p50:.1f} | {p99:.1f} |"
