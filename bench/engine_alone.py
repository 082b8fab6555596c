"""The engine's own acquire and release, one request a statement, driven by pgbench: the limit of one by one."""

import os
import re
import resource
import subprocess
import tempfile
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from bench.slices import Slice, percentiles
from locks.engine import statements
from octoadmin.postgres import BINARIES

WARMING_SECONDS = 1
PLANNED_IN_A_SECOND = 40
# As the server's connections have it, which have run the statements often enough.
_OPTIONS = "-c enable_seqscan=off -c plan_cache_mode=force_generic_plan"
_CALLER = """'index', 0, 'digest', '{digest}', 'request_id', 'req_' || md5(random()::text), 'channel', 'api',
    'address', '127.0.0.1', 'name', 'job-' || :number::int"""
_ACQUIRE = f"""json_build_array(json_build_object({_CALLER}, 'ttl_seconds', 60, 'metadata', 'host=runner-7',
    'lock_delay_seconds', 0, 'ephemeral', true))"""
_RELEASE = f"""json_build_array(json_build_object({_CALLER}, 'lease_id', :got_lease_id::text))"""


def script(digest: str) -> str:
    acquire = _without_comments(statements.ACQUIRE.sql).replace("$1::json", _ACQUIRE.format(digest=digest))
    release = _without_comments(statements.RELEASE.sql).replace("$1::json", _RELEASE.format(digest=digest))
    # Each client has its own names, so that nobody is refused.
    return (
        "\\set number 1000000 + :client_id * 1000 + random(1, 100)\n"
        f"{acquire.strip()} \\gset got_\n{release.strip()};\n"
    )


def _without_comments(sql: str) -> str:
    # To pgbench the scope in quotes would be a variable; this is folded into a constant when it is planned.
    return re.sub(r"--[^\n]*", "", sql).replace("'locks:write'", "('locks' || chr(58) || 'write')")


def run(file: Path, *, conninfo: str, connections: int, seconds: int, directory: Path) -> Slice:
    """Of the last so many seconds: what comes before is each connection's planning of the two statements, which the
    connections of a server do once and not for each turn."""
    parts = conninfo_to_dict(conninfo)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = seconds + WARMING_SECONDS + connections // PLANNED_IN_A_SECOND
    with tempfile.TemporaryDirectory(dir=directory) as logs:
        done = subprocess.run(
            [
                BINARIES / "pgbench", "--no-vacuum", "--protocol=prepared", f"--client={connections}", "--jobs=1",
                f"--time={whole}", f"--file={file}", "--log", f"--log-prefix={logs}/log",
                f"--host={parts['host']}", f"--username={parts['user']}", parts["dbname"],
            ],
            capture_output=True, text=True, check=True, env=os.environ | {"PGOPTIONS": _OPTIONS},
        )  # fmt: skip
        lines = [line.split() for log in Path(logs).iterdir() for line in log.read_text().splitlines()]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    ended = [(int(line[4]) + int(line[5]) / 1e6, int(line[2]) / 1000) for line in lines]
    since = max((at for at, _ in ended), default=0.0) - seconds
    took = [milliseconds for at, milliseconds in ended if at > since]
    p50, p99 = percentiles(took)
    failed = next(iter(re.findall(r"number of failed transactions: (\d+)", done.stdout)), "0")
    return Slice(
        pairs_per_second=len(took) / seconds,
        p50_ms=p50,
        p99_ms=p99,
        failed=int(failed),
        generator_cores=used / whole,
    )
