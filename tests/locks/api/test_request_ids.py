"""Request ids are unique across processes."""

import subprocess
import sys

from locks.api.errors import new_request_id

# Two processes that were one.
FORKED = """
import os
from locks.api.errors import new_request_id
new_request_id()
child = os.fork()
os.write(1, f"{new_request_id()[-20:]} ".encode())
if child:
    os.waitpid(child, 0)
"""


def test_no_two_are_the_same():
    ids = [new_request_id() for _ in range(5_000)]
    assert len({request_id[-20:] for request_id in ids}) == len(ids)
    assert {len(request_id) for request_id in ids} == {len("req_") + 32}


def test_a_process_and_its_fork_use_different_ids():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True)
    first, second = done.stdout.split()
    assert first != second
