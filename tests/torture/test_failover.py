"""The short form of `make failover`: one switchover under load, where Patroni, etcd and haproxy are installed."""

import subprocess
import sys

import pytest

from tests.servers import PROJECT_DIR, free_port
from tests.torture.failover.stack import missing_programs

MISSING = missing_programs()


@pytest.mark.timeout(300)
@pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: see `make failover`")
def test_a_switchover_loses_nothing():
    drill = [sys.executable, "-W", "ignore", "-m", "tests.torture.failover", "--rounds", "1"]
    done = subprocess.run(
        [*drill, "--fault", "switched over", "--port", str(free_port())],
        cwd=PROJECT_DIR, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "violations: 0" in done.stdout
