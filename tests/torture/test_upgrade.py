"""From the last release to this version, under load."""

import subprocess
import sys

import pytest

from tests.servers import PROJECT_DIR


def _has_history() -> bool:
    shallow = ["git", "rev-parse", "--is-shallow-repository"]
    try:
        done = subprocess.run(shallow, cwd=PROJECT_DIR, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return False
    return done.stdout.strip() == "false"


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(not _has_history(), reason="the last release is taken from git's history")
def test_servers_of_the_last_release_are_replaced_under_load():
    drill = [sys.executable, "-W", "ignore", "-m", "tests.torture.upgrade"]
    done = subprocess.run(drill, cwd=PROJECT_DIR, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "violations: 0" in done.stdout
