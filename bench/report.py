"""Runs all measurements, prints the report, and writes it with a chart to docs/."""

import os
import platform
import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from bench import chart, comparison, dependencies, growth, hot_name, page_growth, renewals, store, waiting
from bench.comparison import CONNECTIONS, GOALS, Comparison
from bench.contenders import FAST_PATH
from bench.setup import Environment

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "benchmark.md"
CHART = DOCS / "pictures" / "benchmark.svg"
# Cost of acquire with the largest table ÷ with the smallest.
MAX_GROWTH = 1.3

INTRODUCTION = """# Benchmark

Written by `make bench`; do not edit. Compare the ratios: absolute numbers depend on the machine.

{machine}. Servers, databases and the load generator (wrk) share the cores. Every
contender is durable: it responds after an fsync, so no acknowledged change is lost by a kill or a power cut. Contenders
take turns of two seconds, and the tables show medians. A ratio is the median of the ratios of neighbouring turns.
Contenders with a goal get more turns than the others, at 1 connection {turns_at_1} and at 64 connections {turns_at_64}.

![Claim-release pairs per second](pictures/benchmark.svg)

## Goals
"""
COMPARISON = """
## Claim and release

A pair is: claim a free name with a TTL of 60 s, then release it. p50 and p99 are in milliseconds, of one request over
HTTP and of a pair elsewhere.
"""
COMPARISON_NOTES = """
CPU is that of the server, and of PostgreSQL where the contender uses it, at 64 connections. PostgreSQL's peak memory,
with the connections of all contenders: {postgres:.0f} MiB. Failed requests are claims of a name that was still held
and requests in flight when a turn ended.
"""
HOT_NAME = """## One name, 64 connections

64 connections claim the same name. The holder releases it at once; the other claims are refused.
"""
RENEWALS = f"""
## Renewals

Leases with a TTL of {renewals.TTL_SECONDS} s, renewed when half of it is left.
"""
WAITING = """
## Waiting

The time from a release to the waiter's response includes the release itself.
"""
STORE = """
## The store of a run

Writes and reads over HTTP beside etcd's put and range (JSON gateway), in alternating turns, from a load generator in
Python.
"""
GROWTH = """
## Growth

One request per statement, by the number of locks held in the table. The pages are those of the space with these locks.
"""


def run(environment: Environment) -> None:
    if not dependencies.is_available("wrk"):
        raise SystemExit("The benchmark needs the load generator wrk.")
    started = time.monotonic()
    compared = comparison.compare(environment)
    contended = hot_name.measure(environment)
    renewed = renewals.measure(environment)
    # Before `growth`, which fills the disk cache with a million rows.
    waited = waiting.measure(environment.cluster.conninfo(), environment.directory)
    stored = store.measure(environment)
    tables = growth.measure(environment)
    pages = page_growth.measure()
    costs = [table.median("acquire") for table in tables]
    goals = list(goal_lines(compared, costs[-1] / costs[0]))
    turns = {connections: len(compared.results[FAST_PATH].samples[connections]) for connections in (1, 64)}
    page = "\n".join(
        [
            INTRODUCTION.format(machine=_machine(), turns_at_1=turns[1], turns_at_64=turns[64]),
            *goals,
            COMPARISON,
            *_comparison(compared),
            HOT_NAME,
            *hot_name.lines(contended),
            RENEWALS,
            *renewals.lines(renewed),
            WAITING,
            *waiting.lines(waited),
            STORE,
            *store.lines(stored),
            GROWTH,
            *growth.lines(tables),
            "",
            *page_growth.lines(pages),
            "",
            *(f"Left out: {reason}.\n" for reason in compared.left_out),
            f"Measured in {time.monotonic() - started:.0f} s.",
            "",
        ]
    )
    PAGE.write_text(page)
    pairs = {name: result.pairs() for name, result in compared.results.items()}
    CHART.write_text(chart.bar_chart("Claim-release pairs per second, 64 connections", pairs, highlighted=FAST_PATH))
    print(page, *goals, sep="\n")


def _machine() -> str:
    date = datetime.now(UTC).strftime("%d %B %Y")
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {date}"


def goal_lines(compared: Comparison, acquire_growth: float) -> Iterator[str]:
    yield "| ratio | measured | goal | |"
    yield "|---|---:|---:|---|"
    for (name, connections), goal in GOALS.items():
        ratio = compared.ratio(name, connections)
        measured, verdict = ("", "left out") if ratio is None else (f"{ratio:.2f}", _verdict(ratio >= goal))
        yield f"| {FAST_PATH} ÷ {name}, {_at(connections)} | {measured} | ≥ {goal} | {verdict} |"
    largest, smallest = growth.SIZES[-1], growth.SIZES[0]
    yield (
        f"| acquire, database CPU with {largest:,} locks ÷ {smallest:,} | {acquire_growth:.2f} | ≤ {MAX_GROWTH} | "
        f"{_verdict(acquire_growth <= MAX_GROWTH)} |"
    )


def _verdict(met: bool) -> str:
    return "met" if met else "**missed**"


def _at(connections: int) -> str:
    return f"{connections} connection{'' if connections == 1 else 's'}"


def _comparison(compared: Comparison) -> Iterator[str]:
    yield "| contender | " + " | ".join(f"pairs/s at {count} | p50 | p99" for count in CONNECTIONS) + " |"
    yield "|---|" + "---:|" * (3 * len(CONNECTIONS))
    for name, result in compared.results.items():
        cells = (
            f"{result.pairs(count):,.0f} | {result.median(count, 'p50_ms'):.1f} | {result.median(count, 'p99_ms'):.1f}"
            for count in CONNECTIONS
        )
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield ""
    yield f"| {FAST_PATH} ÷ | " + " | ".join(f"at {count}" for count in CONNECTIONS) + " |"
    yield "|---|" + "---:|" * len(CONNECTIONS)
    for name in compared.results:
        if name != FAST_PATH:
            yield f"| {name} | " + " | ".join(f"{compared.ratio(name, count):.2f}" for count in CONNECTIONS) + " |"
    yield ""
    yield "| contender | protocol | history | CPU per pair, µs | load generator, cores | peak memory, MiB | failed |"
    yield "|---|---|---|---:|---:|---:|---:|"
    for name, result in compared.results.items():
        cpu = f"{statistics.median(result.cpu_us):,.0f}" if result.cpu_us else ""
        memory = f"{compared.peak_memory[name]:.0f}" if name in compared.peak_memory else ""
        failed = sum(sample.failed for samples in result.samples.values() for sample in samples.values())
        yield (
            f"| {name} | {result.spec.protocol} | {result.spec.history} | {cpu} | "
            f"{result.median(64, 'generator_cores'):.2f} | {memory} | {failed} |"
        )
    yield COMPARISON_NOTES.format(postgres=compared.peak_memory.get("PostgreSQL", 0))
