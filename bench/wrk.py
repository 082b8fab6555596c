"""Runs wrk, which costs little CPU for each request, and reads what it says."""

import itertools
import os
import re
import resource
import subprocess
from pathlib import Path

from bench.slices import Slice

LOAD = Path(__file__).parent / "load"
_turns = itertools.count(1)
_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


def run(
    script: str, *, url: str, connections: int, seconds: int, steps_per_pair: int, environment: dict[str, str]
) -> Slice:
    """A step is one of the requests that make up a pair of claim and release."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [
            "wrk", "--threads=1", f"--connections={connections}", f"--duration={seconds}s", "--timeout=10s",
            "--latency", f"--script={LOAD / script}", url,
        ],
        # Names of its own for each turn: what the last one still held when it was cut off is nobody's business.
        env=os.environ | {"CONNECTIONS": str(connections), "TURN": str(next(_turns))} | environment,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    took = _found(r"requests in ([\d.]+)(us|ms|s|m),", done.stdout) / 1000
    steps, failed = (int(number) for number in re.findall(r"steps (\d+) failed (\d+)", done.stdout)[0])
    return Slice(
        pairs_per_second=steps / steps_per_pair / took,
        p50_ms=_found(r"50%\s+([\d.]+)(us|ms|s|m)\b", done.stdout),
        p99_ms=_found(r"99%\s+([\d.]+)(us|ms|s|m)\b", done.stdout),
        failed=failed,
        generator_cores=used / took,
    )


def _found(pattern: str, text: str) -> float:
    """A time, in milliseconds."""
    number, unit = re.findall(pattern, text)[0]
    return float(number) * _UNITS[unit]
