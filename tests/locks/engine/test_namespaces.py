"""Names of namespaces exclude each other: `exact`, `tree` and `all`, by the table of the space."""

import pytest

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.handover import dequeue, hand_over_free_names
from locks.engine.operations import acquire, acquire_all
from locks.models import Event, Space
from tests.locks.engine.test_waiting import WaitingServer
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.django_db

SRC = "path:src"

# Grite's own rules, and what follows from them. Each pair in both orders.
OVERLAPPING = [
    ("repo:deploy", "repo:deploy"),
    ("repo:deploy", "repo:migration"),
    ("repo:deploy", "path:src/main.rs"),
    ("repo:deploy", "path:"),
    ("repo:deploy", "issue:8057324b"),
    (SRC, SRC),
    (SRC, "path:src/main.rs"),
    (SRC, "path:src/lib.rs"),
    (SRC, "path:src/a/b/c/d.rs"),
    ("path:", SRC),
    ("path:", "path:docs/日本/語.md"),
    ("path:docs/日本", "path:docs/日本/語.md"),
    ("issue:1", "issue:1"),
]
SEPARATE = [
    (SRC, "path:tests"),
    (SRC, "path:docs/src"),
    (SRC, "path:src-old"),
    (SRC, "path:src.rs"),
    (SRC, "path:Src"),
    (SRC, "path:sr"),
    ("path:src/main", "path:src/main.rs"),
    ("path:docs/日本", "path:docs/日本語"),
    (SRC, "issue:src"),
    ("path:", "issue:1"),
    ("issue:1", "issue:2"),
    ("issue:1", "issue:1/2"),
    ("repo:deploy", "deploy"),
    ("repo:deploy", "repo"),
    ("repo:deploy", "branch:main"),
    ("path:", "path"),
    ("branch:main", "branch:main/a"),
    ("path:" + "x" * 251, "path:" + "x" * 250),
]


def kinds(name: str) -> list[str]:
    return list(Event.objects.filter(lock_name=name).order_by("id").values_list("kind", flat=True))


def both_orders(pairs):
    return sorted({*pairs, *((second, first) for first, second in pairs)})


@pytest.mark.parametrize(("held", "requested"), both_orders(OVERLAPPING))
def test_a_name_that_overlaps_is_held(engine, held, requested):
    lease = engine.acquire(held, owner="first", metadata="m")
    answer = engine.acquire(requested, owner="second")
    assert answer.verdict == "held"
    if held != requested:
        (blocker,) = answer.blocked_by
        assert (blocker["name"], blocker["owner"], blocker["metadata"]) == (held, "first", "m")
        assert (blocker["fencing_token"], blocker["holder_id"]) == (lease.fencing_token, lease.holder_id)
    engine.release(held, lease.lease_id)
    assert engine.acquire(requested, owner="second").verdict == "acquired"


@pytest.mark.parametrize(("held", "requested"), both_orders(SEPARATE))
def test_a_name_that_does_not_overlap_is_free(engine, held, requested):
    assert engine.acquire(held).verdict == "acquired"
    assert engine.acquire(requested).verdict == "acquired"


def test_an_expired_lease_conflicts_with_nothing(engine):
    engine.acquire("path:src/a", ttl_seconds=10, owner="old")
    pass_seconds(20)
    assert engine.acquire(SRC).verdict == "acquired"
    assert kinds("path:src/a") == ["acquired", "expired"]


def test_a_lease_that_ended_with_its_session_conflicts_with_nothing(engine):
    session_id = engine.open_session(ttl_seconds=10).session_id
    engine.acquire("path:src/a", ttl_seconds=600, session_id=session_id)
    pass_seconds(20)
    assert engine.acquire("repo:deploy").verdict == "acquired"


def test_the_cooldown_of_a_name_that_overlaps_delays(engine):
    lease = engine.acquire("path:src/a", lock_delay_seconds=30)
    engine.release("path:src/a", lease.lease_id)
    answer = engine.acquire(SRC)
    assert (answer.verdict, answer.blocked_by) == ("delayed", [])
    assert 29 < (answer.available_at - answer.now).total_seconds() <= 30
    pass_seconds(31)
    assert engine.acquire(SRC).verdict == "acquired"


def test_a_session_conflicts_with_its_own_leases_too(engine):
    session_id = engine.open_session().session_id
    first = engine.acquire(SRC, session_id=session_id)
    assert engine.acquire("path:src/a", session_id=session_id).verdict == "held"
    again = engine.acquire(SRC, session_id=session_id)
    assert (again.verdict, again.lease_id) == ("recognised", first.lease_id)


def test_the_requests_of_a_batch_see_each_other(engine):
    names = ["path:src/a", "issue:1", SRC, "deploy", "repo:x", "issue:2"]
    answers = run(acquire([requests.Acquire(digest=engine.digest, name=name) for name in names]))
    assert [answer.verdict for answer in answers].count("acquired") == 4
    assert [answers[names.index(name)].verdict for name in ("issue:1", "deploy", "issue:2", "repo:x")] == [
        "acquired", "acquired", "acquired", "held",
    ]  # fmt: skip


def test_at_most_a_hundred_leases_are_listed(engine):
    names = [f"path:src/{number}" for number in range(101)]
    run(acquire_all(requests.AcquireAll(digest=engine.digest, names=names[:100])))
    engine.acquire(names[100])
    assert len(engine.acquire(SRC).blocked_by) == 100


class TestTable:
    """The table of the space decides, from the next request on."""

    def test_a_namespace_of_its_own(self, engine, space):
        Space.objects.filter(pk=space.pk).update(namespaces={"doc:": "tree"})
        engine.acquire("doc:a")
        assert engine.acquire("doc:a/b").verdict == "held"
        assert engine.acquire("path:x").verdict == engine.acquire("path:x/y").verdict == "acquired"
        assert engine.acquire("repo:x").verdict == "acquired"

    def test_names_that_overlap_already_stay_held(self, engine, space):
        leases = {name: engine.acquire(name) for name in ("doc:a", "doc:a/b", "doc:a/b/c")}
        Space.objects.filter(pk=space.pk).update(namespaces={"doc:": "tree"})
        answer = engine.acquire("doc:a/b/d")
        assert [blocker["name"] for blocker in answer.blocked_by] == ["doc:a", "doc:a/b"]
        assert engine.renew("doc:a/b", leases["doc:a/b"].lease_id).verdict == "renewed"


class TestWaiting:
    @pytest.fixture
    def server(self, engine):
        return WaitingServer(engine)

    def serve(self, server) -> list[str]:
        return [handed.name for handed in server.claim_handovers() if handed.verdict == "acquired"]

    @pytest.fixture
    def wait(self, server):
        def wait(name, **terms):
            entry = server.enqueue(name, **terms)
            assert entry.verdict == "waiting"
            return entry

        return wait

    @pytest.mark.parametrize("how", ["release", "force", "session", "expiry"])
    @pytest.mark.parametrize(("held", "waiting"), both_orders(OVERLAPPING))
    def test_the_end_of_a_lease_hands_a_name_over_that_overlaps(self, engine, server, wait, how, held, waiting):
        session = engine.open_session() if how == "session" else None
        lease = engine.acquire(held, session_id=session.session_id if session else None, ttl_seconds=100)
        wait(waiting, owner="next")
        if how == "expiry":
            pass_seconds(200)
            run(hand_over_free_names(server.id))
        elif session:
            engine.end_session(session.session_id)
        elif how == "force":
            engine.force_release(held)
        else:
            assert engine.release(held, lease.lease_id).verdict == "released"
        assert self.serve(server) == [waiting]
        assert engine.acquire(held, owner="late").verdict == "held"

    def test_a_wide_name_waits_until_nothing_overlaps(self, engine, server, wait):
        leases = {name: engine.acquire(name) for name in ("path:src/a", "path:src/b", "path:docs")}
        wait(SRC)
        engine.release("path:src/a", leases["path:src/a"].lease_id)
        assert self.serve(server) == []
        engine.release("path:docs", leases["path:docs"].lease_id)
        assert self.serve(server) == []
        engine.release("path:src/b", leases["path:src/b"].lease_id)
        assert self.serve(server) == [SRC]

    def test_a_later_request_that_overlaps_a_waiter_is_behind_it(self, engine, server, wait):
        lease = engine.acquire("path:src/a", owner="first")
        wait(SRC)
        answer = engine.acquire("path:src/b")
        assert answer.verdict == "held"
        assert [blocker["name"] for blocker in answer.blocked_by] == ["path:src/a"]
        wait("path:src/b")
        assert engine.acquire("path:docs").verdict == "acquired"
        engine.release("path:src/a", lease.lease_id)
        assert self.serve(server) == [SRC]
        engine.force_release(SRC)
        assert self.serve(server) == ["path:src/b"]

    def test_names_that_do_not_overlap_are_handed_over_together(self, engine, server, wait):
        lease = engine.acquire("repo:deploy")
        for name in ("issue:1", "path:a", "path:a/b", "issue:1", "path:c"):
            wait(name)
        engine.release("repo:deploy", lease.lease_id)
        assert sorted(self.serve(server)) == ["issue:1", "path:a", "path:c"]

    def test_waiters_behind_a_waiter_that_left_are_served(self, engine, server, wait):
        engine.acquire("path:src/a")
        wide = wait(SRC)
        wait("path:src/b")
        run(dequeue([wide.waiter_id]))
        run(hand_over_free_names(server.id))
        assert self.serve(server) == ["path:src/b"]

    def test_a_waiter_of_a_dead_server_blocks_no_one(self, engine, server, wait):
        engine.acquire("path:src/a")
        wait(SRC)
        assert engine.acquire("path:src/b").verdict == "held"
        server.stop_heartbeats()
        assert engine.acquire("path:src/b").verdict == "acquired"
        engine.force_release("path:src/a")
        engine.force_release("path:src/b")
        assert engine.acquire(SRC).verdict == "acquired"

    def test_a_waiter_that_is_next_is_served_by_the_next_request(self, engine, server, wait):
        """The lease has expired, and no server has noticed yet."""
        engine.acquire("path:src/a", ttl_seconds=10)
        wait(SRC)
        pass_seconds(20)
        assert engine.acquire("path:src/b").verdict == "held"
        assert self.serve(server) == [SRC]

    def test_the_queue_is_shown(self, engine, server, wait):
        engine.acquire("path:src/a")
        wait(SRC, owner="one")
        wait(SRC, owner="two")
        inspected = engine.inspect(SRC)
        assert (inspected.verdict, inspected.waiters) == ("free", 2)
        assert [waiter["owner"] for waiter in inspected.queue] == ["one", "two"]

    def test_a_namespace_that_was_removed_is_served_as_plain_names(self, engine, server, wait, space):
        lease = engine.acquire("repo:x")
        wait("path:src")
        Space.objects.filter(pk=space.pk).update(namespaces={})
        run(hand_over_free_names(server.id))
        assert self.serve(server) == ["path:src"]
        assert engine.release("repo:x", lease.lease_id).verdict == "released"

    def test_a_handover_that_is_not_claimed_goes_to_the_next(self, engine, server, wait):
        lease = engine.acquire("repo:x")
        wait("path:src", owner="one")
        wait("path:src/a", owner="two")
        engine.release("repo:x", lease.lease_id)
        pass_seconds(1)
        run(hand_over_free_names(server.id))
        assert self.serve(server) == ["path:src/a"]
        assert kinds("path:src") == ["acquired", "expired"]
