"""Waiting requests on a real server: handed the lock in order of queue_seq, and gone without a trace when they go."""

import os
import signal
import time
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
from locks.models import Event, ServerProcess, Space, StatsMinute, Team, Waiter
from locks.models.token import PRESETS
from tests import database
from tests.conftest import issue
from tests.locks.queue.waiters import Waiter as Request
from tests.locks.queue.waiters import Workers, until, waits_for
from tests.servers import running_server

# One server for all of them; each has a name of its own.
pytestmark = [pytest.mark.xdist_group("waiting")]
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
        database.create_copy(connection.settings_dict["NAME"])


@pytest.fixture
def line(place, request):
    """A held lock, and how to wait for it."""
    server, token, _space = place
    line = Line(server, token, request.node.name.replace("[", "-").replace("]", ""))
    yield line
    line.end()


class Line:
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

    def joins(self, owner, name="", **terms):
        """Returns when it stands in line."""
        before = self.in_line(name).count()
        request = self.waits(owner, name, **terms)
        until(lambda: self.in_line(name).count() > before)
        return request

    def asks_for_all(self, *names, key=None, **terms):
        body = {"names": [f"{self.name}{name}" for name in names], **terms}
        headers = {"Idempotency-Key": key} if key else {}
        request = Request(self.server, self.token, "/locks/acquire-all", body, **headers)
        self.requests.append(request)
        return request

    def in_line(self, name=""):
        return Waiter.objects.filter(name=f"{self.name}{name}")

    def looks(self, name=""):
        return self.api.call("GET", f"/locks/{self.name}{name}").json()

    def happened(self, **of):
        return Event.objects.filter(lock_name__startswith=self.name, **of)

    def end(self) -> None:
        for request in self.requests:
            request.vanish()
        self.api.close()


def verified() -> bool:
    said = StringIO()
    call_command("verify_audit", stdout=said)
    return True


def test_a_waiter_is_answered_when_the_lock_is_released(line):
    waiter = line.joins("second", ttl_seconds=30)
    seen = line.looks()
    assert (seen["waiters"], [one["owner"] for one in seen["in_line"]]) == (1, ["second"])
    line.release()
    status, answer = waiter.answer()
    assert (status, answer["status"], answer["owner"]) == (200, "acquired", "second")
    assert 14_000 < answer["renew_after_ms"] <= 15_000
    line.release(answer["lease_id"])
    assert line.acquire()["status"] == "acquired"


def test_held_after_a_wait_says_how_long_and_where(line, place):
    line.joins("first")
    status, answer = line.waits("second", seconds=1).answer()
    assert (status, answer["status"], answer["queue_position"], answer["waiters"]) == (200, "held", 2, 1)
    assert 1000 <= answer["waited_ms"] < 10_000
    assert line.in_line().get().owner == "first"
    until(lambda: StatsMinute.objects.filter(space_id=place[2].pk, waited__gt=0).exists())


def test_a_newcomer_does_not_barge_in(line):
    line.joins("first").vanish()
    until(lambda: not line.in_line().exists())
    second = line.joins("second")
    line.release()
    assert line.acquire(owner="newcomer")["owner"] == "second"
    assert second.answer()[1]["status"] == "acquired"


def test_a_client_that_goes_away_leaves_the_line_at_once(line):
    waiter = line.joins("gone")
    behind = line.joins("behind")
    waiter.vanish()
    until(lambda: line.in_line().count() == 1)
    line.release()
    assert behind.answer()[1]["owner"] == "behind"
    assert not line.happened(owner="gone").exists()


def test_over_the_limit_it_is_held_at_once(line):
    line.joins("first")
    Space.objects.update(max_waiters_per_name=1)
    try:
        status, answer = line.waits("second").answer()
    finally:
        Space.objects.update(max_waiters_per_name=1000)
    assert (status, answer["status"], answer["waiters"]) == (200, "held", 1)
    assert answer["waited_ms"] < 10_000


def test_a_delay_is_waited_for(line):
    lease = line.acquire("closed", lock_delay_seconds=1)
    line.release(lease["lease_id"], name="closed")
    status, answer = line.waits("patient", "closed").answer()
    assert (status, answer["status"]) == (200, "acquired")


def test_a_retry_takes_over_and_a_lost_answer_is_not_lost(line):
    first = line.joins("a", key="k")
    second = line.waits("a", key="k")
    assert first.answer()[1]["status"] == "held"
    line.release()
    lease = second.answer()[1]
    retry = line.waits("a", key="k").answer()[1]
    assert (lease["status"], retry["lease_id"]) == ("acquired", lease["lease_id"])


def test_a_key_that_somebody_in_line_has_used_for_another_request_is_refused(line):
    line.joins("a", key="k")
    status, answer = line.waits("b", key="k").answer()
    assert (status, answer["code"]) == (409, "conflict")
    assert line.in_line().get().owner == "a"


def test_what_is_handed_to_a_request_that_nobody_waits_for_is_given_on(line):
    """As when the database could not be told that it had gone."""
    lease = line.acquire("stray")
    line.joins("somebody")
    stray = requests.Enqueue(
        digest=sha256(line.token.encode()).hexdigest(), name=f"{line.name}stray", owner="nobody", ttl_seconds=600,
        server_id=line.in_line().get().server_id, wait_ms=50_000,
    )  # fmt: skip
    assert run(enqueue([stray]))[0].verdict == "waiting"
    line.release(lease["lease_id"], name="stray")
    until(lambda: line.happened(owner="nobody", kind="released").exists())
    assert line.looks("stray")["status"] == "free"


def test_all_or_none_with_a_wait(line):
    other = line.acquire("other")
    waiter = line.asks_for_all("free", "other", "", wait_seconds=50, owner="all")
    until(lambda: line.in_line().exists())
    line.release()
    until(lambda: line.in_line("other").exists())
    until(lambda: line.looks()["status"] == "free")
    line.release(other["lease_id"], name="other")
    status, answer = waiter.answer()
    assert (status, answer["status"]) == (200, "acquired")
    assert [lease["name"] for lease in answer["leases"]] == [f"{line.name}{name}" for name in ("free", "other", "")]
    assert verified()


def test_a_retry_for_all_takes_over(line):
    first = line.asks_for_all("other", "", wait_seconds=50, key="k")
    until(lambda: line.in_line().exists())
    second = line.asks_for_all("other", "", wait_seconds=50, key="k")
    assert first.answer()[1]["status"] == "held"
    line.release()
    assert second.answer()[1]["status"] == "acquired"


def test_all_or_none_in_vain(line):
    answer = line.asks_for_all("other", "", wait_seconds=1).answer()[1]
    assert (answer["status"], answer["queue_position"]) == ("held", 1)
    assert answer["waited_ms"] >= 1000
    assert line.looks("other")["status"] == "free"


def test_two_that_want_the_same_names_both_get_them(line):
    """In whatever order they name them."""
    other = line.acquire("other")
    waiters = [line.asks_for_all(*names, wait_seconds=50) for names in (("", "other"), ("other", ""))]
    until(lambda: line.in_line().count() == 2)
    line.release()
    line.release(other["lease_id"], name="other")
    workers = Workers()

    def work(waiter):
        answer = waiter.answer()[1]
        assert answer["status"] == "acquired", answer
        leases = [{"name": lease["name"], "lease_id": lease["lease_id"]} for lease in answer["leases"]]
        api = line.server.api(line.token)
        results = api.call("POST", "/locks/release-all", {"leases": leases}).json()["results"]
        assert all(result["ok"] for result in results)

    for waiter in waiters:
        workers.start(work, waiter)
    workers.join()
    assert verified()


def test_a_server_that_stops_says_so_and_its_waiters_leave(line):
    with running_server(os.environ["DATABASE_URL"]) as other:
        waiter = line.joins("first", server=other)
        other.process.terminate()
        status, answer = waiter.answer()
        assert (status, answer["code"]) == (503, "unavailable")
        other.process.wait(20)
    assert not line.in_line().exists()


def serve_in_turn(line, owners, *, killed=frozenset()):
    """Each holds it for 20 ms. Those that are killed vanish before their turn."""
    requests = {owner: line.joins(owner, seconds=50, ttl_seconds=20) for owner in owners}
    workers = Workers()
    served = []

    def work(owner, request):
        lease = request.answer()[1]
        assert lease["status"] == "acquired", lease
        served.append((owner, lease["fencing_token"]))
        time.sleep(0.02)
        api = line.server.api(line.token)
        assert api.call("POST", f"/locks/{line.name}/release", {"lease_id": lease["lease_id"]}).status == 200

    for owner, request in requests.items():
        if owner not in killed:
            workers.start(work, owner, request)
    for owner in killed:
        requests[owner].vanish()
    line.release()
    workers.join()
    return served


@pytest.mark.timeout(180)
@pytest.mark.parametrize("dying", [0, 5])
def test_fifty_workers_are_served_in_order_of_arrival(line, dying):
    owners = [f"worker-{number:02}" for number in range(WORKERS)]
    killed = frozenset(owners[::dying] if dying else ())
    served = serve_in_turn(line, owners, killed=killed)
    assert [owner for owner, _token in served] == [owner for owner in owners if owner not in killed]
    tokens = [token for _owner, token in served]
    assert tokens == sorted(set(tokens))
    assert not line.in_line().exists()
    assert verified()


@pytest.mark.parametrize("key", [None, "k"])
def test_a_server_that_stalled_comes_back_to_where_it_stood(line, key):
    """Meanwhile it counted as gone, its line was dissolved and a newcomer has the lock."""
    with running_server(os.environ["DATABASE_URL"]) as other:
        waiter = line.joins("patient", server=other, key=key)
        stalled = ServerProcess.objects.filter(pk=line.in_line().get().server_id)
        os.killpg(other.process.pid, signal.SIGSTOP)
        try:
            until(lambda: stalled.filter(last_heartbeat_at__lt=Now() - timedelta(seconds=HEARTBEAT_TIMEOUT_SECONDS)).exists())
            line.release()
            newcomer = line.acquire(owner="newcomer")
            assert newcomer["status"] == "acquired"
        finally:
            os.killpg(other.process.pid, signal.SIGCONT)
        until(lambda: line.in_line().exists())
        line.release(newcomer["lease_id"])
        assert waiter.answer()[1]["status"] == "acquired"
    assert verified()


def test_a_server_that_is_killed_is_passed_over(line):
    """Its waiters count as gone within two seconds, and so does what they were handed."""
    with running_server(os.environ["DATABASE_URL"]) as other:
        line.joins("doomed", server=other)
        alive = line.joins("alive")
        os.killpg(other.process.pid, signal.SIGKILL)
        other.process.wait()
        line.release()
        assert alive.answer()[1]["status"] == "acquired"
    assert verified()
