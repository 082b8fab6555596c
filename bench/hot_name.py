"""64 connections claim the same name: the holder releases it at once, all other claims are refused."""

import statistics
from collections.abc import Iterator
from contextlib import ExitStack

from bench.contenders import DRF_PATH, FAST_PATH, http_load, octoadmin_server
from bench.samples import Sample
from bench.setup import Environment

CONNECTIONS = 64
ROUNDS = 2
SECONDS = 2


def measure(environment: Environment) -> dict[str, list[Sample]]:
    """Refused claims are counted as failed."""
    samples: dict[str, list[Sample]] = {FAST_PATH: [], DRF_PATH: []}
    conninfo, directory = environment.cluster.conninfo(), environment.directory
    with ExitStack() as stack:
        loads = {}
        for path in samples:
            port, _ = stack.enter_context(octoadmin_server(conninfo, directory, fast_path=path == FAST_PATH))
            loads[path] = http_load("octoadmin.lua", port, requests_per_pair=2, TOKEN=environment.token, NAMES="1")
        for round_ in range(ROUNDS + 1):
            for path, load in loads.items():
                sample = load(CONNECTIONS, SECONDS)
                if round_:  # the first prepares statements
                    samples[path].append(sample)
    return samples


def lines(samples: dict[str, list[Sample]]) -> Iterator[str]:
    yield "| path | pairs/s | refused/s | p50 | p99 |"
    yield "|---|---:|---:|---:|---:|"
    for path, taken in samples.items():
        pairs = statistics.median(sample.pairs_per_second for sample in taken)
        refused = statistics.median(sample.failed / SECONDS for sample in taken)
        p50 = statistics.median(sample.p50_ms for sample in taken)
        p99 = statistics.median(sample.p99_ms for sample in taken)
        yield f"| {path} | {pairs:,.0f} | {refused:,.0f} | {p50:.1f} | {p99:.1f} |"
