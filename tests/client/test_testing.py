"""The fixtures for other people's tests start a real server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from octo.testing import CannotStart, find_checkout

TESTS = """
def test_a_lock_is_held(octo_client, octo_server):
    with octo_client.lock("report", ttl=30) as lease:
        assert octo_server.client().inspect("report").fencing_token == lease.fencing_token
"""


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_program_is_tested_against_a_real_server(tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["octo.testing"]\n')
    (tmp_path / "test_program.py").write_text(TESTS)
    # Another project: none of this suite's settings count there.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "OCTO_", "COV"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:django", "-p", "no:randomly",
         f"--rootdir={tmp_path}", "-c", os.devnull, str(tmp_path)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=170,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_without_a_checkout_it_says_what_to_do(monkeypatch, tmp_path):
    assert (find_checkout() / "manage.py").exists()
    monkeypatch.setenv("OCTOADMIN_DIR", str(tmp_path))
    with pytest.raises(CannotStart, match="OCTOADMIN_DIR"):
        find_checkout()
    monkeypatch.setenv("OCTOADMIN_DIR", str(Path(__file__).parents[2]))
    assert find_checkout() == Path(__file__).parents[2]
