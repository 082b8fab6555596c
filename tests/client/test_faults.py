"""Fifty leases of two processes behind a proxy that fails in every way it knows: no lease is believed held after its
end, and none is lost that the server still renews.

OCTO_FAULT_SECONDS=600 makes it the long run; `-s` prints its figures.
"""

import json
import os
import random
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

import octo
from octo import Client
from tests.fault_proxy import FAULTS, FaultProxy
from tests.polling import until
from tests.servers import PROJECT_DIR

# At least; on a slow machine it goes on until there was enough to see.
SECONDS = float(os.environ.get("OCTO_FAULT_SECONDS", "18"))
PROCESSES, LEASES = 2, 25
TTL = 6 if SECONDS < 60 else 12
FAULT_PROBABILITY = 0.4
# Chosen at random: a short run need not have all of them.
MIN_KINDS = 5 if SECONDS < 300 else len(FAULTS)
# An outage is longer than a lease, so that some do end.
OUTAGE_SECONDS = TTL + 3
OUTAGE_EVERY = 120


def break_things(proxy: FaultProxy, stop: threading.Event) -> None:
    """Random faults all the time, and now and then an outage."""
    proxy.faults, proxy.probability = FAULTS, FAULT_PROBABILITY
    pause = min(OUTAGE_EVERY, SECONDS / 2)
    while not stop.wait(pause):
        proxy.go_down()
        stop.wait(OUTAGE_SECONDS)
        proxy._down = False
        pause = OUTAGE_EVERY
    proxy.recover()


def compete(client: Client, names: list[str]) -> bool:
    """Takes whatever is free for a moment."""
    random.shuffle(names)
    try:
        lease = client.claim_next(names, ttl=2)
    except octo.LockHeld:
        return False
    time.sleep(0.3)
    with suppress(octo.LeaseEnded):
        lease.release()
    return True


@pytest.mark.timeout(SECONDS + 600)
def test_no_fault_makes_a_lease_look_held_or_lost(backend, proxy, client, name):
    environment = {**os.environ, "OCTO_TOKEN": backend.worker_token}
    command = [sys.executable, "-m", "tests.client.fault_holder", proxy.url, backend.url]
    holders = [
        subprocess.Popen(
            [*command, f"{name}{process}-", str(LEASES), str(TTL)],
            cwd=PROJECT_DIR, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for process in range(PROCESSES)
    ]  # fmt: skip
    names = [f"{name}{process}-{number}" for process in range(PROCESSES) for number in range(LEASES)]
    # They begin with all leases, so that a short run is about keeping them.
    until(lambda: len(list(client.locks(prefix=name))) == len(names), "all leases are held")
    stop = threading.Event()
    breaking = threading.Thread(target=break_things, args=(proxy, stop))
    breaking.start()
    try:
        taken, end = 0, time.monotonic() + SECONDS
        while time.monotonic() < end or len(proxy.counts.keys() & {*FAULTS}) < MIN_KINDS:
            taken += compete(client, names)
            time.sleep(0.2)
        reports = [json.loads(holder.communicate(timeout=300)[0]) for holder in holders]
    finally:
        stop.set()
        breaking.join()
        for holder in holders:
            holder.kill()
    print(json.dumps({"reports": reports, "faults": proxy.counts, "taken by the competitor": taken}, indent=1))
    assert [report["violations"] for report in reports] == [[]] * PROCESSES
