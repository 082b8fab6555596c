"""Requests for names of all namespaces, from many threads at two server processes, in plans that Hypothesis makes.

An observer reads all live leases in one snapshot after another; the history is checked afterwards, by the database's
clock.
"""

import os
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from urllib.parse import quote

import psycopg
import pytest
from django.db import connection
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from locks.models import Event, Lock
from tests import database
from tests.locks.engine.test_namespace_machine import names, overlap
from tests.servers import Api, running_server

THREADS = 8
# What a thread acquires, how long it waits for that, how long it then holds the lock, and how the lease ends.
steps = st.tuples(
    names, st.sampled_from([0, 1, 3]), st.sampled_from([0.0, 0.02, 0.1]), st.sampled_from(["release", "expire"])
)
plan = st.lists(steps, min_size=6, max_size=6)
plans = st.lists(plan, min_size=THREADS, max_size=THREADS)


@pytest.fixture
def servers(committed):
    with (
        running_server(os.environ["DATABASE_URL"]) as first,
        running_server(os.environ["DATABASE_URL"]) as second,
    ):
        yield first, second


def follow(api: Api, steps, pause: threading.Event) -> None:
    for name, wait_seconds, hold, how in steps:
        path = f"/locks/{quote(name, safe=':')}"
        body = {"ttl_seconds": 1 if how == "expire" else 30, "wait_seconds": wait_seconds}
        answer = api.call("POST", f"{path}/acquire", body).json()
        assert answer["status"] in ("acquired", "held"), answer
        if answer["status"] == "held":
            assert "blocked_by" in answer or ":" not in name
        elif how == "release":
            pause.wait(hold)
            released = api.call("POST", f"{path}/release", {"lease_id": answer["lease_id"]})
            assert released.status == 200, released.content


def observe(stop: threading.Event, found: list[tuple[str, str]]) -> None:
    with psycopg.connect(database.conninfo(connection.settings_dict["NAME"]), autocommit=True) as observer:
        while not stop.is_set():
            rows = observer.execute("SELECT name FROM octo_lock WHERE expires_at > clock_timestamp()")
            found += [pair for pair in combinations([name for (name,) in rows], 2) if overlap(*pair)]


@pytest.mark.timeout(300)
def test_no_two_names_that_overlap_are_ever_held(servers, worker_token):
    @settings(
        max_examples=3, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None
    )
    @given(plans=plans)
    def run_plans(plans):
        found: list[tuple[str, str]] = []
        stop, never = threading.Event(), threading.Event()
        apis = [servers[number % 2].api(worker_token) for number in range(THREADS)]
        watcher = threading.Thread(target=observe, args=(stop, found))
        watcher.start()
        try:
            with ThreadPoolExecutor(THREADS) as threads:
                list(threads.map(lambda pair: follow(pair[0], pair[1], never), zip(apis, plans, strict=True)))
        finally:
            stop.set()
            watcher.join()
        assert found == []

    run_plans()
    assert_history_has_no_overlap()


def assert_history_has_no_overlap() -> None:
    """By the database's clock, lease by lease: from its `acquired` event to its end. The times are in milliseconds."""
    leases: dict[tuple[str, int], list] = defaultdict(lambda: [None, None])
    for event in Event.objects.filter(lock_name__contains=":").order_by("id"):
        lease = leases[event.lock_name, event.fencing_token]
        at = event.at.timestamp()
        if event.kind == "acquired":
            lease[0] = at
        else:
            lease[1] = lease[0] + event.held_ms / 1000
    # Of leases that have not been ended, the row has the expiry.
    expiries = dict(Lock.objects.filter(lease_id__isnull=False).values_list("name", "expires_at"))
    times = [(name, start, end or expiries[name].timestamp()) for (name, _), (start, end) in leases.items()]
    assert len(times) > THREADS
    clashes = [
        (first, second) for first, second in combinations(times, 2)
        if overlap(first[0], second[0]) and max(first[1], second[1]) < min(first[2], second[2]) - 0.001
    ]  # fmt: skip
    assert clashes == []
