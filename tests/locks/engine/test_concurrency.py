"""Eight workers on real threads, each with a database connection of its own, and few names: the answers,
and what the history says of it, must fit together."""

import random
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from django.db import connections

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire, release
from locks.models import Event, Lock
from tests.locks.engine.conftest import Engine

pytestmark = pytest.mark.usefixtures("committed")

WORKERS = 8
NAMES = ["a", "B", "c"]


class Worker:
    """Makes random requests, and keeps the answers."""

    def __init__(self, engine: Engine, number: int) -> None:
        self.engine = engine
        self.random = random.Random(number)
        self.acknowledged: Counter[str] = Counter()
        # Until when it may believe that it holds a lock: by name and fencing token, from and to.
        self.beliefs: dict[tuple[str, int], tuple[datetime, datetime]] = {}
        self.leases: list = []

    def work(self, start: threading.Barrier) -> "Worker":
        start.wait()
        for _step in range(120):
            verb = self.random.choice([
                self.acquire, self.acquire, self.acquire_batch, self.claim_next, self.acquire_all, self.renew,
                self.renew, self.release, self.release, self.release_all, self.force_release, self.idle,
            ])  # fmt: skip
            verb()
        connections.close_all()
        return self

    def took(self, leases) -> None:
        for lease in leases:
            if lease.verdict == "acquired":
                assert lease.expires_at > lease.acquired_at
                self.acknowledged["acquired"] += 1
                self.beliefs[lease.name, lease.fencing_token] = (lease.acquired_at, lease.expires_at)
                self.leases.append(lease)

    def acquire(self):
        self.took([self.engine.acquire(self.random.choice(NAMES), ttl_seconds=1)])

    def acquire_batch(self):
        names = self.random.choices(NAMES, k=4)
        self.took(
            run(acquire([requests.Acquire(digest=self.engine.digest, name=name, ttl_seconds=1) for name in names]))
        )

    def claim_next(self):
        self.took([self.engine.claim_next(self.random.sample(NAMES, 2), ttl_seconds=1)])

    def acquire_all(self):
        self.took(self.engine.acquire_all(self.random.sample(NAMES, 2), ttl_seconds=1))

    def renew(self):
        if self.leases:
            lease = self.random.choice(self.leases[-4:])
            renewed = self.engine.renew(lease.name, lease.lease_id, ttl_seconds=1)
            if renewed.verdict == "renewed":
                since, _until = self.beliefs[lease.name, lease.fencing_token]
                self.beliefs[lease.name, lease.fencing_token] = (since, renewed.expires_at)

    def release(self):
        self.release_some(1)

    def release_all(self):
        self.release_some(len(self.leases))

    def release_some(self, few: int) -> None:
        leases = [self.leases.pop() for _turn in range(min(few, len(self.leases)))]
        digest = self.engine.digest
        batch = [requests.Release(digest=digest, name=lease.name, lease_id=lease.lease_id) for lease in leases]
        answers = run(release(batch))
        self.acknowledged["released"] += sum(answer.verdict == "released" for answer in answers)

    def force_release(self):
        if self.random.random() < 0.3:
            answer = self.engine.force_release(self.random.choice(NAMES))
            self.acknowledged["force_released"] += answer.verdict == "released"

    def idle(self):
        """Sometimes so long that its leases expire."""
        time.sleep(1.1 if self.random.random() < 0.1 else 0.01)


def run_workers(work) -> list:
    """All workers at once; an exception in one is an exception here."""
    start = threading.Barrier(WORKERS)
    with ThreadPoolExecutor(WORKERS) as threads:
        return [future.result() for future in [threads.submit(work, number, start) for number in range(WORKERS)]]


@pytest.fixture
def workers(engine):
    return run_workers(lambda number, start: Worker(engine, number).work(start))


def history() -> dict[str, list[Event]]:
    """By name, in the order of the commits: each waits for the one before it, so this is the order of the ids."""
    by_name = defaultdict(list)
    for event in Event.objects.filter(lock_name__isnull=False).order_by("id"):
        by_name[event.lock_name].append(event)
    return by_name


def test_the_answers_to_eight_workers_are_consistent(workers):
    holds_never_overlap_and_tokens_rise()
    every_transition_has_its_event(workers)
    no_two_ever_believed_they_held_the_same(workers)


def holds_never_overlap_and_tokens_rise() -> None:
    for events in history().values():
        assert events[0].kind == "acquired"
        for event, following in pairwise(events):
            assert following.at >= event.at
            if following.kind == "acquired":
                assert event.kind in ("released", "force_released", "expired")
                assert following.fencing_token > event.fencing_token
            else:
                assert (event.kind, event.fencing_token) == ("acquired", following.fencing_token)
            if following.kind == "expired":
                assert following.held_ms >= 1000
                assert following.recorded_late_ms >= 0


def every_transition_has_its_event(workers: list[Worker]) -> None:
    acknowledged = sum((worker.acknowledged for worker in workers), Counter())
    recorded = Counter(event.kind for events in history().values() for event in events)
    expired = recorded.pop("expired")
    assert recorded == acknowledged
    assert expired > 0
    ended = expired + recorded["released"] + recorded["force_released"]
    assert recorded["acquired"] == ended + Lock.objects.filter(lease_id__isnull=False).count()


def no_two_ever_believed_they_held_the_same(workers: list[Worker]) -> None:
    told_to_stop = {
        (name, event.fencing_token): event.at
        for name, events in history().items()
        for event in events
        if event.kind in ("released", "force_released")
    }
    beliefs = defaultdict(list)
    for worker in workers:
        for (name, token), (since, until) in worker.beliefs.items():
            beliefs[name].append((token, since, min(until, told_to_stop.get((name, token), until))))
    assert len(beliefs) == len(NAMES)
    for held in beliefs.values():
        for (_token, _since, until), (_next_token, next_since, _next_until) in pairwise(sorted(held)):
            assert next_since - until >= timedelta(0)


def test_opposite_orders_never_deadlock(engine):
    """Names sort differently by letter and by byte, and a deadlock would be an `Unavailable` here."""
    names = ["a", "B", "é", "Z", "z/1"]

    def work(number: int, start: threading.Barrier) -> int:
        order = random.Random(number)
        start.wait()
        took = 0
        for _round in range(100):
            names_to_acquire = order.sample(names, 4)
            if number % 2:
                leases = engine.acquire_all(names_to_acquire)
            else:
                batch = [requests.Acquire(digest=engine.digest, name=name) for name in names_to_acquire]
                leases = run(acquire(batch))
            mine = [lease for lease in leases if lease.verdict == "acquired"]
            took += len(mine)
            order.shuffle(mine)
            batch = [requests.Release(digest=engine.digest, name=lease.name, lease_id=lease.lease_id) for lease in mine]
            assert all(answer.verdict == "released" for answer in run(release(batch)))
        connections.close_all()
        return took

    assert sum(run_workers(work)) == Event.objects.filter(kind="released").count() > 0


def test_many_workers_with_one_list_spread_over_it(engine):
    names = [f"job-{number}" for number in range(WORKERS)]

    def work(_number: int, start: threading.Barrier) -> list[str]:
        start.wait()
        claimed = engine.claim_next(names)
        connections.close_all()
        return claimed.name

    assert sorted(run_workers(work)) == names
