"""The engine's own acquire and release, one request per statement, driven by pgbench: the limit without batching."""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from bench.samples import Sample, children_cpu_seconds, percentiles
from locks.engine import requests, statements
from octoadmin.postgres import BINARIES

WARM_UP_SECONDS = 1
CONNECTIONS_PLANNED_PER_SECOND = 40
# As on the server's connections, which have run the statements often enough for a generic plan.
_OPTIONS = "-c enable_seqscan=off -c plan_cache_mode=force_generic_plan"
# Replaced by each transaction.
_NAME, _REQUEST_ID, _LEASE_ID = "@name", "@request", UUID(int=0)


def script(digest: str) -> str:
    caller: dict[str, Any] = {"digest": digest, "request_id": _REQUEST_ID, "address": "127.0.0.1", "name": _NAME}
    acquire = requests.Acquire(**caller, ttl_seconds=60, metadata="host=runner-7")
    release = requests.Release(**caller, lease_id=_LEASE_ID)
    # Each client has names of its own, so that no claim is refused.
    return (
        "\\set number 1000000 + :client_id * 1000 + random(1, 100)\n"
        f"{_with_request(statements.ACQUIRE.sql, acquire)} \\gset got_\n"
        f"{_with_request(statements.RELEASE.sql, release)};\n"
    )


def _with_request(sql: str, request: requests.Caller) -> str:
    # A colon before a letter is a variable to pgbench: hence the spaces in the JSON, and chr(58) in scopes, which the
    # planner folds into constants.
    text = json.dumps([msgspec.to_builtins(request)])
    parameter = f"replace('{text}', '{_NAME}', 'job-' || :number::int)"
    parameter = f"replace({parameter}, '{_REQUEST_ID}', 'req_' || md5(random()::text))"
    if isinstance(request, requests.Release):
        parameter = f"replace({parameter}, '{_LEASE_ID}', :got_lease_id::text)"
    sql = re.sub(r"--[^\n]*", "", sql)
    sql = re.sub(r"'(\w+):(\w+)'", r"('\1' || chr(58) || '\2')", sql)
    return sql.replace("$1::json", f"({parameter})::json").strip()


def run(file: Path, *, conninfo: str, connections: int, seconds: int, directory: Path) -> Sample:
    """Counts the last `seconds` only: before that each connection plans the two statements, which a server's
    connections do once."""
    total_seconds = seconds + WARM_UP_SECONDS + connections // CONNECTIONS_PLANNED_PER_SECOND
    cpu_before = children_cpu_seconds()
    with tempfile.TemporaryDirectory(dir=directory) as logs:
        process = subprocess.run(
            [
                BINARIES / "pgbench", "--no-vacuum", "--protocol=prepared", f"--client={connections}", "--jobs=1",
                f"--time={total_seconds}", f"--file={file}", "--log", f"--log-prefix={logs}/log",
                conninfo,
            ],
            capture_output=True, text=True, check=True, env=os.environ | {"PGOPTIONS": _OPTIONS},
        )  # fmt: skip
        lines = [line.split() for log in Path(logs).iterdir() for line in log.read_text().splitlines()]
    cpu = children_cpu_seconds() - cpu_before
    ended = [(int(line[4]) + int(line[5]) / 1e6, int(line[2]) / 1000) for line in lines]
    since = max((at for at, _ in ended), default=0.0) - seconds
    durations = [milliseconds for at, milliseconds in ended if at > since]
    p50, p99 = percentiles(durations)
    failed = re.search(r"number of failed transactions: (\d+)", process.stdout)
    return Sample(
        pairs_per_second=len(durations) / seconds, p50_ms=p50, p99_ms=p99,
        failed=int(failed[1]) if failed else 0, generator_cores=cpu / total_seconds,
    )  # fmt: skip
