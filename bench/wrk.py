"""Runs the load generator wrk with a Lua script and parses its output."""

import itertools
import os
import re
import subprocess
from pathlib import Path

from bench.samples import Sample, children_cpu_seconds

LOAD = Path(__file__).parent / "load"
_runs = itertools.count(1)
_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


def run(
    script: str, *, url: str, connections: int, seconds: int, requests_per_pair: int, environment: dict[str, str]
) -> Sample:
    cpu_before = children_cpu_seconds()
    process = subprocess.run(
        [
            "wrk", "--threads=1", f"--connections={connections}", f"--duration={seconds}s", "--timeout=10s",
            "--latency", f"--script={LOAD / script}", url,
        ],
        # RUN gives each run names of its own: the previous one may have left some held when it ended.
        env=os.environ
        | {"LOAD": str(LOAD), "CONNECTIONS": str(connections), "RUN": str(next(_runs))}
        | environment,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    cpu = children_cpu_seconds() - cpu_before
    duration = _milliseconds(r"requests in ([\d.]+)(us|ms|s|m),", process.stdout) / 1000
    succeeded, failed = (int(count) for count in re.findall(r"succeeded (\d+) failed (\d+)", process.stdout)[0])
    return Sample(
        pairs_per_second=succeeded / requests_per_pair / duration,
        p50_ms=_milliseconds(r"50%\s+([\d.]+)(us|ms|s|m)\b", process.stdout),
        p99_ms=_milliseconds(r"99%\s+([\d.]+)(us|ms|s|m)\b", process.stdout),
        failed=failed,
        generator_cores=cpu / duration,
    )


def _milliseconds(pattern: str, text: str) -> float:
    number, unit = re.findall(pattern, text)[0]
    return float(number) * _UNITS[unit]
