"""Runs all measurements, prints them, and writes them with a picture to docs/."""

import os
import platform
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from bench import comparison, growth, heartbeats, hot_name, page_growth, peers, picture, waiting
from bench.comparison import CONNECTIONS, Comparison
from bench.heartbeats import Heartbeats
from bench.sides import Place

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "benchmark.md"
PICTURE = DOCS / "pictures" / "benchmark.svg"
# Fast lane ÷ the other, at 64 connections: what we hold ourselves to.
WANTED = {
    "etcd, a lease per claim": 2.0,
    "etcd, one shared lease": 1.2,
    "DRF lane": 3.0,
    "plain ORM": 6.0,
    "pgbench, the engine's SQL one by one": 0.5,
}
MAX_GROWTH = 1.3


def run(place: Place) -> None:
    if peers.get("wrk") is None:
        raise SystemExit("The load generator is missing: there is nothing to measure with.")
    began = time.monotonic()
    compared = comparison.compare(place)
    contended = hot_name.measure(place)
    beats, without = heartbeats.measure(place)
    # Before the table grows to a million rows, which is another question.
    waited = list(waiting.lines())
    crowds = growth.measure(place)
    pages = page_growth.measure(place)
    page = "\n".join(
        [
            INTRODUCTION.format(machine=_machine()),
            *_comparison(compared),
            HOT_NAME,
            *hot_name.lines(contended),
            "",
            *_heartbeats(beats),
            WAITING,
            *waited,
            "",
            GROWTH,
            *growth.lines(crowds),
            "",
            *page_growth.lines(pages),
            "",
            *_left_out([*compared.left_out, *without]),
            f"Measured in {time.monotonic() - began:.0f} s.",
            "",
        ]
    )
    print(page)
    PAGE.write_text(page)
    values = {name: side.pairs() for name, side in compared.sides.items()}
    PICTURE.write_text(picture.bars("Claim–release pairs per second, 64 connections", values, ours="fast lane"))
    costs = [crowd.median("acquire") for crowd in crowds]
    for line in _verdicts(compared, costs[-1] / costs[0]):
        print(line)


INTRODUCTION = """# Benchmark

Written by `make bench`; do not edit. What counts is the ratios of one run: absolute numbers are the machine's.

{machine}. Servers, databases and the load generator (wrk) share the cores. Every side is
durable: it answers after an fsync, so a kill or a power cut takes nothing back that was acknowledged. Sides take turns
of two seconds, at 64 connections three times as many as at the others, and the median of the turns is shown. A ratio is
the median of the ratios of neighbouring turns.

![Claim–release pairs per second](pictures/benchmark.svg)

## Claim and release

A pair is: claim a free name with a TTL of 60 s, then release it. p50 and p99 are of one request where HTTP is spoken,
and of a whole pair elsewhere, in milliseconds.
"""
MEMORY = """
PostgreSQL's peak, with the connections of all sides: {postgres:.0f} MiB (shared pages counted once). CPU is that of the
server, and of PostgreSQL where it has one, at 64 connections. What failed are claims that met a name still held, and
requests that were under way when a turn ended.
"""
HOT_NAME = """## One name that everybody wants

64 connections ask for the same name; whoever gets it releases it at once, and all others are told who has it.
"""
WAITING = """## Waiting

The time from a release to the waiter's answer has the release itself in it.
"""
GROWTH = """## Growth

One statement at a time, with so many locks held in the table; the rounds of all sizes alternate. The pages are those of
the space that holds them.
"""


def _machine() -> str:
    when = datetime.now(UTC).strftime("%d %B %Y")
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {when}"


def _comparison(compared: Comparison) -> Iterator[str]:
    yield "| side | " + " | ".join(f"pairs/s at {count} | p50 | p99" for count in CONNECTIONS) + " |"
    yield "|---|" + "---:|" * (3 * len(CONNECTIONS))
    for name, side in compared.sides.items():
        cells = (
            f"{side.pairs(count):,.0f} | {side.median(count, 'p50_ms'):.1f} | {side.median(count, 'p99_ms'):.1f}"
            for count in CONNECTIONS
        )
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield ""
    yield "| fast lane ÷ | " + " | ".join(f"at {count}" for count in CONNECTIONS) + " | we want at 64 |"
    yield "|---|" + "---:|" * (len(CONNECTIONS) + 1)
    for name in compared.sides:
        if name != "fast lane":
            ratios = " | ".join(f"{compared.ratio(name, count):.2f}" for count in CONNECTIONS)
            yield f"| {name} | {ratios} | {f'≥ {WANTED[name]:g}' if name in WANTED else ''} |"
    yield ""
    yield (
        "| side | speaks | durable | keeps a history | CPU a pair, µs | load generator, cores | peak memory, MiB | "
        "failed |"
    )
    yield "|---|---|---|---|---:|---:|---:|---:|"
    for name, side in compared.sides.items():
        kind = side.kind
        memory = compared.peaks.get(name)
        failed = sum(one.failed for slices in side.slices.values() for one in slices)
        yield (
            f"| {name} | {kind.spoken} | {kind.durable} | {kind.history} | {_cpu(side.cpu_us, kind.name)} | "
            f"{side.median(64, 'generator_cores'):.2f} | {f'{memory:.0f}' if memory else ''} | {failed} |"
        )
    yield ""
    yield MEMORY.format(postgres=compared.peaks.get("PostgreSQL", 0))


def _cpu(measured: list[float], name: str) -> str:
    # The processes that serve pgbench end with it, and take their account along.
    return "" if name.startswith("pgbench") else f"{sorted(measured)[len(measured) // 2]:,.0f}"


def _heartbeats(beats: list[Heartbeats]) -> Iterator[str]:
    yield "## Heartbeats"
    yield ""
    yield f"Leases with a TTL of {heartbeats.TTL_SECONDS} s, renewed when half of it is left."
    yield ""
    yield "| how | requests/s | leases renewed/s | leases that one server keeps alive |"
    yield "|---|---:|---:|---:|"
    for beat in beats:
        renewed = beat.requests_per_second * beat.leases_per_request
        yield f"| {beat.how} | {beat.requests_per_second:,.0f} | {renewed:,.0f} | {beat.kept_alive:,.0f} |"
    yield ""


def _left_out(lines: list[str]) -> Iterator[str]:
    if lines:
        yield "## Left out"
        yield ""
        yield from (f"- {line}" for line in lines)
        yield ""


def _verdicts(compared: Comparison, grown: float) -> Iterator[str]:
    for name, wanted in WANTED.items():
        ratio = compared.ratio(name)
        if ratio is None:
            yield f"fast lane ÷ {name}: left out"
        else:
            yield f"fast lane ÷ {name}: {ratio:.2f} ({'reached' if ratio >= wanted else 'NOT reached'}: ≥ {wanted:g})"
    reached = "reached" if grown <= MAX_GROWTH else "NOT reached"
    yield f"acquire at {growth.SIZES[-1]:,} ÷ at {growth.SIZES[0]:,} locks: {grown:.2f} ({reached}: ≤ {MAX_GROWTH:g})"
