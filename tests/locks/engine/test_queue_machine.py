"""Sessions, queues and freezes, through any sequence of events that Hypothesis can think of.

One live holder, rising fencing tokens, first come first served among the waiters that are present, no lock handed over
twice, no frozen lock granted, and no other free while a request waits. Time passes in steps of 100 s; leases and
sessions last 150 or 250 s.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from uuid import UUID

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

from locks.engine.execution import run
from locks.engine.handover import dequeue, hand_over_free_names, hand_over_names
from locks.engine.maintenance import sweep, sweep_sessions
from locks.engine.results import LockKey
from locks.events.history.verification import verify
from locks.models import Freeze, Space, Team
from locks.services import freezes
from locks.services.audit import Actor
from tests.conftest import issue
from tests.locks.engine.conftest import Engine
from tests.locks.engine.test_waiting import WaitingServer
from tests.locks.engine.time_travel import pass_seconds

NAMES = ("a", "b")

names = st.sampled_from(NAMES)
ttls = st.sampled_from([150, 250])
places = st.integers(0, 3)
example_numbers = count()


@dataclass
class Session:
    id: UUID
    ttl: int
    until: int


@dataclass
class QueueEntry:
    waiter_id: int
    server: WaitingServer
    session: Session | None
    ttl: int


@dataclass
class Lock:
    """`until` is the lease's own expiry; 0 when the lock is free."""

    until: int = 0
    lease_id: UUID | None = None
    session: Session | None = None
    highest_token: int = 0
    queue: list[QueueEntry] = field(default_factory=list)


class LinesAndSessions(RuleBasedStateMachine):
    # Of all examples. A handover that is not claimed in time lapses, and a run in which all do would prove little.
    claimed = 0

    @initialize()
    def a_space_of_its_own(self):
        team = Team.objects.create(slug=f"line-{next(example_numbers)}", name="Team")
        self.space = Space.objects.create(team=team, slug="main", name="Main")
        self.engine = Engine(issue(self.space, "fleet", "locks:read", "locks:write", "locks:force"))
        self.now = 0
        self.locks = {name: Lock() for name in NAMES}
        self.sessions: list[Session] = []
        self.frozen: dict[str, Freeze] = {}
        self.servers: list[WaitingServer] = []
        for _ in range(2):
            self.a_server_starts()

    def is_held(self, name: str) -> bool:
        lock = self.locks[name]
        return lock.until > self.now and (lock.session is None or lock.session.until > self.now)

    def is_present(self, entry: QueueEntry) -> bool:
        return entry.server in self.servers and (entry.session is None or entry.session.until > self.now)

    def session(self, chosen: int) -> Session | None:
        living = [session for session in self.sessions if session.until > self.now]
        return living[chosen] if chosen < len(living) else None

    def begin(self, name: str, lease, *, ttl: int, session: Session | None) -> None:
        lock = self.locks[name]
        assert lease.fencing_token > lock.highest_token
        assert not self.is_held(name)
        lock.until, lock.lease_id, lock.session = self.now + ttl, lease.lease_id, session
        lock.highest_token = lease.fencing_token

    def served(self, *names: str) -> None:
        """These names were handed over: each free one has gone to the first waiter that is present. Of a frozen one
        all keep their places."""
        expected = {}
        for name in names:
            if not self.is_held(name) and name not in self.frozen:
                queue = self.locks[name].queue
                first = next((entry for entry in queue if self.is_present(entry)), None)
                if first is None:
                    queue.clear()
                else:
                    queue.remove(first)
                    expected[first.waiter_id] = name, first
        handed = {row.waiter_id: row for server in self.servers for row in server.claim_handovers()}
        assert {waiter: row.name for waiter, row in handed.items()} == {w: name for w, (name, _) in expected.items()}
        for waiter_id, (name, entry) in expected.items():
            # On a machine that stalls for a moment the claim may be too late. That is allowed.
            if handed[waiter_id].verdict == "acquired":
                LinesAndSessions.claimed += 1
                self.begin(name, handed[waiter_id], ttl=entry.ttl, session=entry.session)

    @rule(seconds=st.sampled_from([100, 100, 200]))
    def time_passes(self, seconds):
        pass_seconds(seconds, space_id=self.space.pk)
        self.now += seconds

    @rule(ttl=ttls)
    def open_session(self, ttl):
        self.sessions.append(Session(self.engine.open_session(ttl_seconds=ttl).session_id, ttl, self.now + ttl))

    @precondition(lambda self: self.sessions)
    @rule(chosen=places)
    def keep_alive(self, chosen):
        session = self.sessions[chosen % len(self.sessions)]
        lives = session.until > self.now
        assert self.engine.keep_alive(session.id).verdict == ("kept_alive" if lives else "session_over")
        if lives:
            session.until = self.now + session.ttl

    @precondition(lambda self: self.sessions)
    @rule(chosen=places)
    def end_session(self, chosen):
        session = self.sessions[chosen % len(self.sessions)]
        lives = session.until > self.now
        assert self.engine.end_session(session.id).verdict == ("ended" if lives else "session_over")
        had = [name for name in NAMES if self.locks[name].session is session]
        session.until = min(session.until, self.now)
        for lock in self.locks.values():
            lock.queue = [entry for entry in lock.queue if entry.session is not session]
        self.served(*had)
        for name in had:
            if self.locks[name].session is session:
                self.locks[name].session, self.locks[name].until = None, 0

    @rule(name=names, ttl=ttls, chosen=places)
    def acquire(self, name, ttl, chosen):
        session = self.session(chosen)
        was_held = self.is_held(name)
        is_theirs = was_held and session is not None and self.locks[name].session is session
        has_waiters = any(self.is_present(entry) for entry in self.locks[name].queue)
        answer = self.engine.acquire(name, ttl_seconds=ttl, session_id=session and session.id)
        if is_theirs:
            assert answer.verdict == "recognised"
            self.locks[name].until = max(self.locks[name].until, self.now + ttl)
            return
        if was_held:
            assert answer.verdict == "held"
            return
        if name in self.frozen:
            assert answer.verdict == "delayed"
            return
        self.served(name)
        assert answer.verdict == ("held" if has_waiters else "acquired")
        if answer.verdict == "acquired":
            self.begin(name, answer, ttl=ttl, session=session)

    @rule(name=names, ttl=ttls, chosen=places, at=places)
    def enqueue(self, name, ttl, chosen, at):
        session, server = self.session(chosen), self.servers[at % len(self.servers)]
        enqueued = server.enqueue(name, ttl_seconds=ttl, session_id=session and session.id)
        assert enqueued.verdict in ("waiting", "retry")
        if enqueued.verdict == "waiting":
            self.locks[name].queue.append(QueueEntry(enqueued.waiter_id, server, session, ttl))
            if enqueued.is_free:
                assert not self.is_held(name)
                assert name not in self.frozen
                run(hand_over_names([LockKey(self.space.pk, name)]))
                self.served(name)
        else:
            assert not self.is_held(name)
            assert self.locks[name].highest_token == 0

    @rule(name=names, chosen=places)
    def dequeue(self, name, chosen):
        queue = self.locks[name].queue
        if chosen < len(queue):
            entry = queue.pop(chosen)
            (left,) = run(dequeue([entry.waiter_id]))
            assert left.lease_id is None

    @rule(name=names)
    def release(self, name):
        lock = self.locks[name]
        if lock.lease_id is not None:
            was_held = self.is_held(name)
            answer = self.engine.release(name, lock.lease_id)
            assert answer.verdict == ("released" if was_held else "not_held")
            if was_held:
                lock.until = 0
                self.served(name)
            else:
                self.look()

    @rule(name=names)
    def force_release(self, name):
        was_held = self.is_held(name)
        assert self.engine.force_release(name).verdict == ("released" if was_held else "not_held")
        if was_held:
            self.locks[name].until = 0
            self.served(name)
        else:
            self.look()

    @rule()
    def sweep(self):
        run(sweep_sessions())
        run(sweep())
        self.look()

    @rule()
    def look(self):
        """By each server, for whatever its own requests wait for."""
        waited_for = [
            name
            for name in NAMES
            if name not in self.frozen and any(self.is_present(entry) for entry in self.locks[name].queue)
        ]
        for server in self.servers:
            run(hand_over_free_names(server.id))
        self.served(*waited_for)
        for name in waited_for:
            assert self.engine.inspect(name).verdict == "held"

    @rule(name=names)
    def freeze_or_lift(self, name):
        actor = Actor.of_shell()
        if name in self.frozen:
            freezes.lift(actor=actor, space=self.space, freeze_id=self.frozen.pop(name).pk)
            self.look()
        else:
            day = timedelta(days=1)
            self.frozen[name] = freezes.freeze(actor=actor, space=self.space, prefix=name, reason="", duration=day)

    @rule()
    def a_server_starts(self):
        if len(self.servers) < 3:
            self.servers.append(WaitingServer(self.engine))
            # However slow the machine is: the present servers have just sent a heartbeat.
            self.last_heard_of(self.servers[-1], "infinity")

    @precondition(lambda self: len(self.servers) > 1)
    @rule(chosen=places)
    def a_server_is_killed(self, chosen):
        self.last_heard_of(self.servers.pop(chosen % len(self.servers)), "-infinity")

    def last_heard_of(self, server: WaitingServer, moment: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE octo_server_process SET last_heartbeat_at = %s WHERE id = %s", [moment, server.id])
            # The arrival of a waiter counts as a heartbeat too.
            cursor.execute("UPDATE octo_waiter SET enqueued_at = %s WHERE server_id = %s", [moment, server.id])

    @invariant()
    def inspect_agrees(self):
        for name in NAMES:
            assert (self.engine.inspect(name).verdict == "held") == self.is_held(name)


@pytest.mark.usefixtures("committed")
def test_every_waiter_is_served_and_nothing_is_held_twice():
    run_state_machine_as_test(
        LinesAndSessions, settings=settings(max_examples=25, stateful_step_count=30, deadline=None)
    )
    # Letting time pass moves the locks into the past, and not the history.
    problems = {found.problem for found in run(verify()).contradictions}
    assert problems <= {"was acquired at another time than the lock says"}
    assert LinesAndSessions.claimed > 0
