"""Waiting requests on a real server: they get the lock in order of arrival, and leave nothing behind when they go."""

import os
import signal
import time
from contextlib import closing
from datetime import timedelta
from hashlib import sha256
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models.functions import Now

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.handover import HEARTBEAT_TIMEOUT_SECONDS, enqueue
from locks.models import Event, Lock, ServerProcess, Space, StatsMinute, Team, Waiter
from locks.models.token import PRESETS
from locks.services import freezes
from locks.services.audit import Actor
from tests import database
from tests.conftest import issue
from tests.fault_proxy import FaultProxy
from tests.locks.queue.waiters import Waiter as Request
from tests.locks.queue.waiters import Workers, waits_for
from tests.polling import until
from tests.servers import running_server

WORKERS = 50


@pytest.fixture(scope="module")
def place(django_db_blocker):
    with django_db_blocker.unblock():
        team = Team.objects.create(slug="blue", name="Blue")
        space = Space.objects.create(team=team, slug="main", name="Main")
        token = issue(space, "worker", *PRESETS["worker"])
        with running_server(os.environ["DATABASE_URL"]) as server:
            yield server, token, space
        connection.close()
        database.clean(connection.settings_dict["NAME"])


@pytest.fixture
def lock(place, request):
    """A held lock with its queue."""
    server, token, _space = place
    lock = HeldLock(server, token, request.node.name.replace("[", "-").replace("]", ""))
    yield lock
    lock.end()


class HeldLock:
    def __init__(self, server, token, name) -> None:
        self.server, self.token, self.name = server, token, name
        self.api = server.api(token)
        self.requests = []
        self.lease_id = self.acquire()["lease_id"]

    def acquire(self, name="", **terms):
        return self.api.call("POST", f"/locks/{self.name}{name}/acquire", {"ttl_seconds": 60, **terms}).json()

    def release(self, lease_id=None, name=""):
        body = {"lease_id": lease_id or self.lease_id}
        assert self.api.call("POST", f"/locks/{self.name}{name}/release", body).status == 200

    def waits(self, owner, name="", *, server=None, **terms):
        request = waits_for(server or self.server, self.token, f"{self.name}{name}", owner=owner, **terms)
        self.requests.append(request)
        return request

    def enqueue(self, owner, name="", **terms):
        """Returns when it is in the queue and the lock says so."""
        before = self.waiters(name).count()
        request = self.waits(owner, name, **terms)
        until(lambda: self.waiters(name).count() > before)
        newest = self.waiters(name).latest("id").pk
        until(Lock.objects.filter(name=f"{self.name}{name}", last_waiter_id__gte=newest).exists)
        return request

    def acquire_all(self, *names, key=None, **terms):
        body = {"names": [f"{self.name}{name}" for name in names], **terms}
        headers = {"Idempotency-Key": key} if key else {}
        request = Request(self.server, self.token, "/locks/acquire-all", body, **headers)
        self.requests.append(request)
        return request

    def waiters(self, name=""):
        return Waiter.objects.filter(name=f"{self.name}{name}")

    def inspect(self, name=""):
        return self.api.call("GET", f"/locks/{self.name}{name}").json()

    def events(self, **of):
        return Event.objects.filter(lock_name__startswith=self.name, **of)

    def end(self) -> None:
        for request in self.requests:
            request.disconnect()
        self.api.close()


def verified() -> bool:
    output = StringIO()
    call_command("verify_audit", stdout=output)
    return True


def test_a_waiter_is_answered_when_the_lock_is_released(lock):
    waiter = lock.enqueue("second", ttl_seconds=30)
    seen = lock.inspect()
    assert (seen["waiters"], [one["owner"] for one in seen["in_line"]]) == (1, ["second"])
    lock.release()
    status, answer = waiter.answer()
    assert (status, answer["status"], answer["owner"]) == (200, "acquired", "second")
    assert 14_000 < answer["renew_after_ms"] <= 15_000
    lock.release(answer["lease_id"])
    assert lock.acquire()["status"] == "acquired"


def test_held_after_a_wait_has_the_time_and_position(lock, place):
    lock.enqueue("first")
    status, answer = lock.waits("second", seconds=1).answer()
    assert (status, answer["status"], answer["queue_position"], answer["waiters"]) == (200, "held", 2, 1)
    assert 1000 <= answer["waited_ms"] < 10_000
    assert lock.waiters().get().owner == "first"
    until(lambda: StatsMinute.objects.filter(space_id=place[2].pk, waited__gt=0).exists())


def test_a_new_request_does_not_overtake(lock):
    lock.enqueue("first").disconnect()
    until(lambda: not lock.waiters().exists())
    second = lock.enqueue("second")
    lock.release()
    assert lock.acquire(owner="new")["owner"] == "second"
    assert second.answer()[1]["status"] == "acquired"


def test_a_client_that_disconnects_leaves_the_queue_at_once(lock):
    waiter = lock.enqueue("gone")
    behind = lock.enqueue("behind")
    waiter.disconnect()
    until(lambda: lock.waiters().count() == 1)
    lock.release()
    assert behind.answer()[1]["owner"] == "behind"
    assert not lock.events(owner="gone").exists()


def test_over_the_queue_limit_the_answer_is_held_at_once(lock):
    lock.enqueue("first")
    Space.objects.update(max_waiters_per_name=1)
    try:
        status, answer = lock.waits("second").answer()
    finally:
        Space.objects.update(max_waiters_per_name=1000)
    assert (status, answer["status"], answer["waiters"]) == (200, "held", 1)
    assert answer["waited_ms"] < 10_000


def test_a_delay_is_waited_for(lock):
    lease = lock.acquire("closed", lock_delay_seconds=1)
    lock.release(lease["lease_id"], name="closed")
    status, answer = lock.waits("patient", "closed").answer()
    assert (status, answer["status"]) == (200, "acquired")


def test_waiters_of_a_frozen_name_are_served_when_the_freeze_is_lifted(lock, place):
    """One that was held, and one that was never used; alone and with others."""
    freeze = {"actor": Actor.of_shell(), "space": place[2]}
    frozen = freezes.freeze(**freeze, prefix=lock.name, reason="ice", duration=timedelta(hours=1))
    first, second = lock.enqueue("first"), lock.enqueue("second")
    new = lock.enqueue("third", "-new")
    both = lock.acquire_all("-a", "-b", wait_seconds=50, owner="fourth")
    until(lambda: Waiter.objects.filter(name__startswith=lock.name).count() == 4)
    lock.release()
    assert lock.acquire()["frozen"]
    assert [waiter.owner for waiter in lock.waiters().order_by("queue_seq")] == ["first", "second"]
    freezes.lift(**freeze, freeze_id=frozen.pk)
    answers = [request.answer()[1] for request in (first, new, both)]
    assert [answer["status"] for answer in answers] == ["acquired"] * 3
    lock.release(answers[0]["lease_id"])
    assert second.answer()[1]["status"] == "acquired"


def test_a_retry_takes_over(lock):
    first = lock.enqueue("a", key="k")
    second = lock.waits("a", key="k")
    assert first.answer()[1]["status"] == "held"
    lock.release()
    assert second.answer()[1]["status"] == "acquired"


def test_a_lease_whose_answer_was_lost_is_given_to_the_retry(lock):
    with closing(FaultProxy(lock.server.port)) as proxy:
        proxy.lose_an_answer()
        lost = lock.enqueue("a", key="k", server=proxy)
        lock.release()
        assert lost.received() == b""
    granted = lock.inspect()
    assert granted["owner"] == "a"
    retry = lock.waits("a", key="k").answer()[1]
    assert (retry["status"], retry["fencing_token"]) == ("acquired", granted["fencing_token"])


def test_a_key_that_a_waiter_has_used_for_another_request_is_refused(lock):
    lock.enqueue("a", key="k")
    status, answer = lock.waits("b", key="k").answer()
    assert (status, answer["code"]) == (409, "conflict")
    assert lock.waiters().get().owner == "a"


def test_a_lease_handed_to_an_abandoned_request_is_returned(lock):
    """As when the request could not be dequeued because the database did not answer."""
    lease = lock.acquire("stray")
    lock.enqueue("waiter")
    stray = requests.Enqueue(
        digest=sha256(lock.token.encode()).hexdigest(), name=f"{lock.name}stray", owner="abandoned", ttl_seconds=600,
        server_id=lock.waiters().get().server_id, wait_ms=50_000,
    )  # fmt: skip
    assert run(enqueue([stray]))[0].verdict == "waiting"
    lock.release(lease["lease_id"], name="stray")
    until(lambda: lock.events(owner="abandoned", kind="released").exists())
    assert lock.inspect("stray")["status"] == "free"


def test_acquire_all_with_a_wait(lock):
    other = lock.acquire("other")
    waiter = lock.acquire_all("free", "other", "", wait_seconds=50, owner="all")
    until(lambda: lock.waiters().exists())
    lock.release()
    until(lambda: lock.waiters("other").exists())
    until(lambda: lock.inspect()["status"] == "free")
    lock.release(other["lease_id"], name="other")
    status, answer = waiter.answer()
    assert (status, answer["status"]) == (200, "acquired")
    assert [lease["name"] for lease in answer["leases"]] == [f"{lock.name}{name}" for name in ("free", "other", "")]
    assert verified()


def test_a_retry_of_acquire_all_takes_over(lock):
    first = lock.acquire_all("other", "", wait_seconds=50, key="k")
    until(lambda: lock.waiters().exists())
    second = lock.acquire_all("other", "", wait_seconds=50, key="k")
    assert first.answer()[1]["status"] == "held"
    lock.release()
    assert second.answer()[1]["status"] == "acquired"


def test_acquire_all_after_a_timed_out_wait(lock):
    answer = lock.acquire_all("other", "", wait_seconds=1).answer()[1]
    assert (answer["status"], answer["queue_position"]) == ("held", 1)
    assert answer["waited_ms"] >= 1000
    assert lock.inspect("other")["status"] == "free"


def test_two_acquire_alls_of_the_same_names_both_succeed(lock):
    """In whatever order they name them."""
    other = lock.acquire("other")
    waiters = [lock.acquire_all(*names, wait_seconds=50) for names in (("", "other"), ("other", ""))]
    until(lambda: lock.waiters().count() == 2)
    lock.release()
    lock.release(other["lease_id"], name="other")
    workers = Workers()

    def work(waiter):
        answer = waiter.answer()[1]
        assert answer["status"] == "acquired", answer
        leases = [{"name": lease["name"], "lease_id": lease["lease_id"]} for lease in answer["leases"]]
        api = lock.server.api(lock.token)
        results = api.call("POST", "/locks/release-all", {"leases": leases}).json()["results"]
        assert all(result["ok"] for result in results)

    for waiter in waiters:
        workers.start(work, waiter)
    workers.join()
    assert verified()


def test_a_server_that_stops_answers_its_waiters_and_they_leave_the_queue(lock):
    with running_server(os.environ["DATABASE_URL"]) as other:
        waiter = lock.enqueue("first", server=other)
        other.process.terminate()
        status, answer = waiter.answer()
        assert (status, answer["code"]) == (503, "unavailable")
        other.process.wait(20)
    assert not lock.waiters().exists()


def serve_in_turn(lock, owners, *, killed=frozenset()):
    """Each holds it for 20 ms. Some disconnect before their turn."""
    requests = {owner: lock.enqueue(owner, seconds=50, ttl_seconds=20) for owner in owners}
    workers = Workers()
    served = []

    def work(owner, request):
        lease = request.answer()[1]
        assert lease["status"] == "acquired", lease
        served.append((owner, lease["fencing_token"]))
        time.sleep(0.02)
        api = lock.server.api(lock.token)
        assert api.call("POST", f"/locks/{lock.name}/release", {"lease_id": lease["lease_id"]}).status == 200

    for owner, request in requests.items():
        if owner not in killed:
            workers.start(work, owner, request)
    for owner in killed:
        requests[owner].disconnect()
    lock.release()
    workers.join()
    return served


@pytest.mark.timeout(180)
@pytest.mark.parametrize("dying", [0, 5])
def test_fifty_workers_are_served_in_order_of_arrival(lock, dying):
    owners = [f"worker-{number:02}" for number in range(WORKERS)]
    killed = frozenset(owners[::dying] if dying else ())
    served = serve_in_turn(lock, owners, killed=killed)
    assert [owner for owner, _token in served] == [owner for owner in owners if owner not in killed]
    tokens = [token for _owner, token in served]
    assert tokens == sorted(set(tokens))
    assert not lock.waiters().exists()
    assert verified()


@pytest.mark.parametrize("key", [None, "k"])
def test_waiters_of_a_server_that_stalled_return_to_their_positions(lock, key):
    """Meanwhile it counted as gone, the queue was cleared and a later request got the lock."""
    with running_server(os.environ["DATABASE_URL"]) as other:
        waiter = lock.enqueue("patient", server=other, key=key)
        stalled = ServerProcess.objects.filter(pk=lock.waiters().get().server_id)
        until(stalled.exists)
        os.killpg(other.process.pid, signal.SIGSTOP)
        try:
            until(
                lambda: stalled.filter(
                    last_heartbeat_at__lt=Now() - timedelta(seconds=HEARTBEAT_TIMEOUT_SECONDS)
                ).exists()
            )
            lock.release()
            later = lock.acquire(owner="new")
            assert later["status"] == "acquired"
        finally:
            os.killpg(other.process.pid, signal.SIGCONT)
        until(lambda: lock.waiters().exists())
        lock.release(later["lease_id"])
        assert waiter.answer()[1]["status"] == "acquired"
    assert verified()


def test_waiters_of_a_killed_server_are_skipped(lock):
    """Its waiters count as gone within two seconds, and so does what they were handed."""
    with running_server(os.environ["DATABASE_URL"]) as other:
        lock.enqueue("doomed", server=other)
        alive = lock.enqueue("alive")
        os.killpg(other.process.pid, signal.SIGKILL)
        other.process.wait()
        lock.release()
        assert alive.answer()[1]["status"] == "acquired"
    assert verified()
