"""The engine and the model of it, through any sequence of events that Hypothesis can think of: no divergence.

Time passes in steps of 100 seconds and leases last 150 or 250, so the moments between two steps never decide.
"""

from itertools import count
from uuid import uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import inspect
from locks.models import Event, Space, Team
from tests.conftest import issue
from tests.locks.engine.conftest import Engine
from tests.locks.engine.lease_model import Lease, Lock
from tests.locks.engine.time_travel import pass_seconds

NAMES = ("a", "B/c", "é")
TOLERATED_SECONDS = 20

names = st.sampled_from(NAMES)
holders = st.sampled_from(["fleet", "robot"])
ttls = st.sampled_from([150, 250])
delays = st.sampled_from([0, 0, 30])
keys = st.sampled_from([None, None, "aa" * 32, "bb" * 32])
bodies = st.sampled_from(["cc" * 32, "dd" * 32])
example_numbers = count()


class EngineAgainstModel(RuleBasedStateMachine):
    @initialize()
    def a_space_of_its_own(self):
        team = Team.objects.create(slug=f"team-{next(example_numbers)}", name="Team")
        self.space = Space.objects.create(team=team, slug="main", name="Main")
        scopes = ("locks:read", "locks:write", "locks:force")
        self.engines = {holder: Engine(issue(self.space, holder, *scopes)) for holder in ("fleet", "robot")}
        self.now = 0
        self.locks = {name: Lock() for name in NAMES}
        self.lease_ids = {name: [uuid4()] for name in NAMES}

    def begin(self, name, answer, *, holder, metadata, ttl, delay, key, body):
        lock = self.locks[name]
        assert answer.fencing_token > lock.highest_token
        assert answer.lease_id not in self.lease_ids[name]
        lock.begin(
            Lease(
                answer.lease_id, answer.fencing_token, holder, answer.owner, metadata, ttl, delay, key, body,
                self.now + ttl,
            )
        )  # fmt: skip
        self.lease_ids[name].append(answer.lease_id)

    @rule(seconds=st.sampled_from([100, 100, 200, 400]))
    def time_passes(self, seconds):
        pass_seconds(seconds, space_id=self.space.pk)
        self.now += seconds

    @rule(
        name=names, holder=holders, ttl=ttls, delay=delays, key=keys, body=bodies, metadata=st.none() | st.just("m"),
        owner=st.none() | st.just("o"),
    )  # fmt: skip
    def acquire(self, name, holder, ttl, delay, key, body, metadata, owner):
        lock = self.locks[name]
        expected = lock.verdict_of_acquire(self.now, holder=holder, key=key, body=body)
        answer = self.engines[holder].acquire(
            name, ttl_seconds=ttl, lock_delay_seconds=delay, idempotency_digest=key, request_digest=key and body,
            metadata=metadata, owner=owner,
        )  # fmt: skip
        assert answer.verdict == expected
        match expected:
            case "acquired":
                assert answer.owner == (owner or holder)
                terms = {"metadata": metadata, "ttl": ttl, "delay": delay, "key": key, "body": body}
                self.begin(name, answer, holder=holder, **terms)
            case "recognised":
                assert (answer.lease_id, answer.metadata) == (lock.lease.lease_id, lock.lease.metadata)
                lock.lease.expires = max(lock.lease.expires, self.now + ttl)
                lock.lease.ttl = max(lock.lease.ttl, ttl)
            case "held":
                assert (answer.lease_id, answer.owner) == (None, lock.lease.owner)
                assert (answer.fencing_token, answer.metadata) == (lock.lease.fencing_token, lock.lease.metadata)
            case "delayed" | "idempotency_conflict":
                assert answer.lease_id is None

    @rule(requested=st.lists(names, min_size=1, max_size=4), holder=holders, ttl=ttls)
    def claim_next(self, requested, holder, ttl):
        free = [name for name in requested if self.locks[name].status(self.now) == "free"]
        answer = self.engines[holder].claim_next(requested, ttl_seconds=ttl)
        if free:
            assert (answer.verdict, answer.name) == ("acquired", free[0])
            terms = {"metadata": None, "ttl": ttl, "delay": 0, "key": None, "body": None}
            self.begin(free[0], answer, holder=holder, **terms)
        else:
            assert (answer.verdict, answer.lease_id) == ("held", None)

    @rule(requested=st.permutations(NAMES), few=st.integers(1, 3), holder=holders, ttl=ttls, delay=delays)
    def acquire_all(self, requested, few, holder, ttl, delay):
        requested = requested[:few]
        free = [name for name in requested if self.locks[name].status(self.now) == "free"]
        rows = self.engines[holder].acquire_all(requested, ttl_seconds=ttl, lock_delay_seconds=delay)
        assert [row.name for row in rows] == requested
        assert {row.verdict for row in rows} == {"acquired" if free == requested else "held"}
        assert [row.name for row in rows if row.is_blocking] == [name for name in requested if name not in free]
        if free == requested:
            terms = {"metadata": None, "ttl": ttl, "delay": delay, "key": None, "body": None}
            for row in rows:
                self.begin(row.name, row, holder=holder, **terms)

    @rule(name=names, holder=holders, age=st.integers(0, 2), ttl=st.none() | ttls)
    def renew(self, name, holder, age, ttl):
        """With the latest lease id of the name, or one from before it."""
        lock, lease_id = self.locks[name], self.lease_ids[name][-1 - age :][0]
        expected = lock.verdict_of_holder(self.now, lease_id, holder, "renewed")
        assert self.engines[holder].renew(name, lease_id, ttl_seconds=ttl).verdict == expected
        if expected == "renewed":
            lock.lease.ttl = ttl or lock.lease.ttl
            lock.lease.expires = self.now + lock.lease.ttl

    @rule(name=names, holder=holders, age=st.integers(0, 2))
    def release(self, name, holder, age):
        lock, lease_id = self.locks[name], self.lease_ids[name][-1 - age :][0]
        expected = lock.verdict_of_holder(self.now, lease_id, holder, "released")
        assert self.engines[holder].release(name, lease_id).verdict == expected
        if expected == "released":
            lock.end(self.now, "released", lock.lease.delay)

    @rule(name=names, wrong_by=st.sampled_from([None, 0, -1, 1]), delay=st.none() | delays)
    def force_release(self, name, wrong_by, delay):
        lock = self.locks[name]
        token = None if wrong_by is None else lock.highest_token + wrong_by
        expected = lock.verdict_of_force(self.now, token)
        answer = self.engines["robot"].force_release(name, expected_fencing_token=token, lock_delay_seconds=delay)
        assert answer.verdict == expected
        if expected == "released":
            lock.end(self.now, "force_released", lock.lease.delay if delay is None else delay)
        elif lock.lease is not None and expected == "not_held":
            lock.end(lock.lease.expires, "expired", lock.lease.delay)

    @invariant()
    def inspect_agrees(self):
        engine = self.engines["fleet"]
        seen = run(inspect([requests.Inspect(digest=engine.digest, name=name) for name in NAMES]))
        for name, answer in zip(NAMES, seen, strict=True):
            lock = self.locks[name]
            assert answer.verdict == lock.status(self.now)
            if answer.verdict == "held":
                lease = lock.lease
                assert (answer.fencing_token, answer.owner) == (lease.fencing_token, lease.owner)
                assert answer.metadata == lease.metadata
                left = (answer.expires_at - answer.now).total_seconds()
                assert lease.expires - self.now - TOLERATED_SECONDS < left <= lease.expires - self.now

    @invariant()
    def events_are_the_transitions_one_to_one(self):
        recorded = Event.objects.filter(space_id=self.space.pk, lock_name__isnull=False).order_by("id")
        by_name = {name: [] for name in NAMES}
        for kind, name, fencing_token in recorded.values_list("kind", "lock_name", "fencing_token"):
            by_name[name].append((kind, fencing_token))
        assert by_name == {name: lock.events for name, lock in self.locks.items()}


@pytest.mark.usefixtures("committed")
def test_the_engine_never_diverges_from_the_model():
    run_state_machine_as_test(
        EngineAgainstModel, settings=settings(max_examples=40, stateful_step_count=40, deadline=None)
    )
