"""Names of all namespaces, through any sequence of acquires, waits and expiries that Hypothesis can think of.

At no time two live leases overlap; every request that could be granted is, and no other; the queue is served in its
order: a waiter gets its lock when neither a lease nor an earlier waiter overlaps. Time passes in steps of 100 s; leases
last 150 or 250 s.
"""

from dataclasses import dataclass
from itertools import combinations, count

import pytest
from django.db import connection
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from locks.engine import results
from locks.engine.execution import run
from locks.engine.handover import dequeue, hand_over_free_names
from locks.engine.maintenance import sweep
from locks.events.history.verification import verify
from locks.models import Space, Team
from tests.conftest import issue
from tests.locks.engine.conftest import Engine
from tests.locks.engine.test_waiting import WaitingServer
from tests.locks.engine.time_travel import pass_seconds

paths = st.lists(st.sampled_from("ab"), max_size=4).map(lambda segments: "path:" + "/".join(segments))
names = st.one_of(paths, paths, st.sampled_from(["issue:1", "issue:2", "repo:x", "repo:y", "plain", "path"]))
ttls = st.sampled_from([150, 250])
example_numbers = count()


def overlap(first: str, second: str) -> bool:
    """The rules of the default table, written once more."""
    spaces = {name.partition(":")[0] if ":" in name else None for name in (first, second)}
    if first == second:
        return True
    if not spaces <= {"issue", "path", "repo"}:
        return False
    if "repo" in spaces:
        return True
    if spaces != {"path"}:
        return False
    shorter, longer = sorted((name.removeprefix("path:") for name in (first, second)), key=len)
    return shorter == "" or longer.startswith(f"{shorter}/")


@dataclass
class Lease:
    name: str
    lease_id: object
    until: int


@dataclass
class Entry:
    name: str
    waiter_id: int
    ttl: int


class Namespaces(RuleBasedStateMachine):
    @initialize()
    def a_space_of_its_own(self):
        team = Team.objects.create(slug=f"tree-{next(example_numbers)}", name="Team")
        self.space = Space.objects.create(team=team, slug="main", name="Main")
        self.engine = Engine(issue(self.space, "fleet", "locks:read", "locks:write", "locks:force"))
        self.servers = [WaitingServer(self.engine) for _ in range(2)]
        # However slow the machine is: the servers have just sent a heartbeat.
        with connection.cursor() as cursor:
            cursor.execute("UPDATE octo_server_process SET last_heartbeat_at = 'infinity'")
        self.now = 0
        self.leases: list[Lease] = []
        self.queue: list[Entry] = []

    def blocked(self, name: str, queue: list[Entry]) -> bool:
        return any(overlap(name, other.name) for other in (*self.leases, *queue))

    def serve(self) -> None:
        """Those whose turn it is have been handed their locks; they claim them."""
        expected: list[Entry] = []
        for position, entry in enumerate(self.queue):
            if not self.blocked(entry.name, self.queue[:position]):
                expected.append(entry)
        handed: list[results.Handover] = [handover for server in self.servers for handover in server.claim_handovers()]
        assert {handover.waiter_id for handover in handed} == {entry.waiter_id for entry in expected}
        assert all(handover.verdict == "acquired" for handover in handed)
        leases = {handover.waiter_id: handover.lease_id for handover in handed}
        for entry in expected:
            self.queue.remove(entry)
            self.leases.append(Lease(entry.name, leases[entry.waiter_id], self.now + entry.ttl))

    @rule(name=names, ttl=ttls)
    def acquire(self, name, ttl):
        answer = self.engine.acquire(name, ttl_seconds=ttl)
        if self.blocked(name, self.queue):
            assert answer.verdict == "held"
            live = {lease.name for lease in self.leases if overlap(lease.name, name) and lease.name != name}
            if live:
                assert {blocker["name"] for blocker in answer.blocked_by} == live
        else:
            assert answer.verdict == "acquired"
            self.leases.append(Lease(name, answer.lease_id, self.now + ttl))

    @rule(wanted=st.lists(names, min_size=1, max_size=3, unique=True), ttl=ttls)
    def acquire_all(self, wanted, ttl):
        rows = self.engine.acquire_all(wanted, ttl_seconds=ttl)
        if any(overlap(*pair) for pair in combinations(wanted, 2)):
            assert rows[0].verdict == "names_overlap"
        elif any(self.blocked(name, self.queue) for name in wanted):
            assert rows[0].verdict == "held"
        else:
            assert rows[0].verdict == "acquired"
            self.leases += [Lease(row.name, row.lease_id, self.now + ttl) for row in rows]

    @rule(wanted=st.lists(names, min_size=1, max_size=3, unique=True), ttl=ttls)
    def claim_next(self, wanted, ttl):
        answer = self.engine.claim_next(wanted, ttl_seconds=ttl)
        free = [name for name in wanted if not self.blocked(name, self.queue)]
        if free:
            assert (answer.verdict, answer.name) == ("acquired", free[0])
            self.leases.append(Lease(answer.name, answer.lease_id, self.now + ttl))
        else:
            assert answer.verdict == "held"

    @precondition(lambda self: len(self.queue) < 6)
    @rule(name=names, ttl=ttls, server=st.integers(0, 1))
    def wait(self, name, ttl, server):
        if not self.blocked(name, self.queue):
            return
        entry = self.servers[server].enqueue(name, seconds=1_000_000, ttl_seconds=ttl)
        if entry.verdict == "retry":
            # Only a name with a row can be waited for, and a plain one that is held has one.
            raise AssertionError(name)
        self.queue.append(Entry(name, entry.waiter_id, ttl))

    @precondition(lambda self: self.leases)
    @rule(place=st.integers(0, 20), how=st.sampled_from(["release", "force"]))
    def end(self, place, how):
        lease = self.leases.pop(place % len(self.leases))
        if how == "force":
            assert self.engine.force_release(lease.name).verdict == "released"
        else:
            assert self.engine.release(lease.name, lease.lease_id).verdict == "released"
        self.serve()

    @precondition(lambda self: self.leases)
    @rule(place=st.integers(0, 20), ttl=ttls)
    def renew(self, place, ttl):
        lease = self.leases[place % len(self.leases)]
        assert self.engine.renew(lease.name, lease.lease_id, ttl_seconds=ttl).verdict == "renewed"
        lease.until = self.now + ttl

    @precondition(lambda self: self.queue)
    @rule(place=st.integers(0, 20))
    def leave(self, place):
        run(dequeue([self.queue.pop(place % len(self.queue)).waiter_id]))
        self.check()

    @rule(sweeps=st.booleans())
    def time_passes(self, sweeps):
        pass_seconds(100, space_id=self.space.pk)
        self.now += 100
        self.leases = [lease for lease in self.leases if lease.until > self.now]
        if sweeps:
            run(sweep())
        self.check()

    def check(self) -> None:
        """What each server process does several times a second."""
        for server in self.servers:
            run(hand_over_free_names(server.id))
        self.serve()

    @invariant()
    def no_two_live_leases_overlap(self):
        if not hasattr(self, "space"):
            return
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT name FROM octo_lock WHERE space_id = %s AND expires_at > clock_timestamp()", [self.space.pk]
            )
            live = sorted(name for (name,) in cursor.fetchall())
        assert live == sorted(lease.name for lease in self.leases)
        assert [pair for pair in combinations(live, 2) if overlap(*pair)] == []


@pytest.mark.timeout(240)
@pytest.mark.usefixtures("committed")
def test_no_two_names_that_overlap_are_held_and_the_queue_is_served_in_its_order():
    run_state_machine_as_test(Namespaces, settings=settings(max_examples=100, stateful_step_count=30, deadline=None))
    # Letting time pass moves the locks into the past, and not the history.
    problems = {found.problem for found in run(verify()).contradictions}
    assert problems <= {"was acquired at another time than the lock says"}
