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
from tests.fault_proxy import FAULTS
from tests.servers import PROJECT_DIR

SECONDS = float(os.environ.get("OCTO_FAULT_SECONDS", "20"))
PROCESSES, LEASES = 2, 25
TTL = 6 if SECONDS < 60 else 12
FAULT_PROBABILITY = 0.4
# An outage is longer than a lease, so that some do end.
OUTAGE_SECONDS = TTL + 3
OUTAGE_EVERY = 120


def break_things(proxy, seconds: float) -> None:
    """Random faults all the time, and now and then an outage."""
    proxy.faults, proxy.probability = FAULTS, FAULT_PROBABILITY
    until = time.monotonic() + seconds
    next_outage = time.monotonic() + min(OUTAGE_EVERY, SECONDS / 2)
    while time.monotonic() < until:
        time.sleep(0.1)
        if time.monotonic() >= next_outage:
            proxy.go_down()
            time.sleep(OUTAGE_SECONDS)
            proxy._down = False
            next_outage = time.monotonic() + OUTAGE_EVERY
    proxy.recover()


def compete(client: Client, prefix: str, until: float) -> int:
    """Takes whatever is free for a moment."""
    names = [f"{prefix}{process}-{number}" for process in range(PROCESSES) for number in range(LEASES)]
    taken = 0
    while time.monotonic() < until:
        random.shuffle(names)
        with suppress(octo.LockHeld):
            lease = client.claim_next(names, ttl=2)
            taken += 1
            time.sleep(0.3)
            with suppress(octo.LeaseEnded):
                lease.release()
        time.sleep(0.2)
    return taken


@pytest.mark.timeout(SECONDS + 600)
def test_no_fault_makes_a_lease_look_held_or_lost(backend, proxy, client, name):
    environment = {**os.environ, "OCTO_TOKEN": backend.worker_token}
    holders = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.client.fault_holder",
                proxy.url,
                backend.url,
                f"{name}{process}-",
                str(LEASES),
                str(TTL),
                str(SECONDS),
            ],
            cwd=PROJECT_DIR,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for process in range(PROCESSES)
    ]
    breaking = threading.Thread(target=break_things, args=(proxy, SECONDS))
    # They begin with all leases, so that a short run is about keeping them.
    time.sleep(2)
    breaking.start()
    taken = compete(client, name, time.monotonic() + SECONDS - 3)
    breaking.join()
    proxy.recover()
    reports = [json.loads(holder.communicate(timeout=60)[0]) for holder in holders]
    print(json.dumps({"reports": reports, "faults": proxy.counts, "taken by the competitor": taken}, indent=1))
    assert [report["violations"] for report in reports] == [[]] * PROCESSES
    for report in reports:
        assert report["counts"]["renewed"] > LEASES
        assert report["counts"]["renew_failed"] > 0
        assert report["counts"]["checked"] > LEASES
    # Chosen at random: a short run need not have all of them.
    assert len(proxy.counts) > 5
    assert SECONDS < 300 or set(proxy.counts) == {"passed on", *FAULTS}
