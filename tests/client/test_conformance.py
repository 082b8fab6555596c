"""FakeServer is held to the contract: the same tests run on it and on the real server, and both give the same answers
to the same requests."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

import octo
from octo import AsyncClient, Client
from octo.testing import FakeServer
from tests.client.command_line import PATIENCE_SECONDS, eventually


@dataclass
class Target:
    """A server to test."""

    client: Callable[[], Client]
    operator: Callable[[], Client]
    async_client: Callable[[], AsyncClient]


@pytest.fixture(params=["real", "fake"])
def target(request, backend) -> Target:
    if request.param == "real":
        return Target(
            lambda: Client(backend.url, backend.worker_token, retry_for=5),
            lambda: Client(backend.url, backend.operator_token, retry_for=5),
            lambda: AsyncClient(backend.url, backend.worker_token, retry_for=5),
        )
    server = FakeServer(tokens={"worker": ["locks:read", "locks:write"], "operator": octo.testing.SCOPES})
    return Target(server.client, lambda: server.client("operator"), server.async_client)


@pytest.fixture
def worker(target) -> Iterator[Client]:
    with target.client() as client:
        yield client


@pytest.fixture
def boss(target) -> Iterator[Client]:
    with target.operator() as client:
        yield client


def test_a_lock_excludes(worker, name):
    with worker.lock(name, ttl=30, owner="a", metadata="build=1") as lease:
        info = worker.inspect(name)
        assert (info.status, info.owner, info.metadata) == ("held", "a", "build=1")
        assert info.fencing_token == lease.fencing_token
        with pytest.raises(octo.LockHeld) as refused:
            worker.acquire(name)
        assert (refused.value.held.owner, refused.value.held.fencing_token) == ("a", lease.fencing_token)
    assert worker.inspect(name).status == "free"
    with worker.lock(name, ttl=30) as later:
        assert later.fencing_token > lease.fencing_token


def test_a_lease_expires_and_is_not_revived(worker, name):
    lease = worker.acquire(name, ttl=1)
    eventually(lambda: worker.inspect(name).status == "free")
    with pytest.raises(octo.LeaseNotCurrent):
        worker.renew(name, lease.lease_id)
    with pytest.raises(octo.LeaseNotCurrent):
        worker.release(name, lease.lease_id)


def test_a_renewal_keeps_the_ttl_unless_it_names_another(worker, name):
    lease = worker.acquire(name, ttl=100)
    assert 48_000 < worker.renew(name, lease.lease_id)["renew_after_ms"] <= 50_000
    assert 98_000 < worker.renew(name, lease.lease_id, ttl=200)["renew_after_ms"] <= 100_000
    assert 98_000 < worker.renew(name, lease.lease_id)["renew_after_ms"] <= 100_000


def test_an_idempotency_key_finds_its_lease(worker, name):
    first = worker.acquire(name, ttl=30, idempotency_key=f"{name}-1")
    assert worker.acquire(name, ttl=30, idempotency_key=f"{name}-1").lease_id == first.lease_id
    with pytest.raises(octo.LockHeld):
        worker.acquire(name, ttl=30, idempotency_key=f"{name}-2")
    with pytest.raises(octo.Conflict):
        worker.acquire(name, ttl=31, idempotency_key=f"{name}-1")


def test_a_key_can_wait(worker, name):
    holder = worker.acquire(name, ttl=30)
    timer = threading.Timer(0.5, holder.release)
    timer.start()
    assert worker.acquire(name, ttl=30, wait=PATIENCE_SECONDS, idempotency_key=f"{name}-1").owned()
    timer.join()


def test_the_name_stays_closed_after_a_delay(worker, name):
    worker.acquire(name, ttl=30, lock_delay=2).release()
    with pytest.raises(octo.LockDelayed) as refused:
        worker.acquire(name)
    assert refused.value.delayed.lock_delay_seconds == 2
    assert worker.inspect(name).status == "delayed"
    assert worker.acquire(name, wait=PATIENCE_SECONDS).owned()


def test_waiters_are_served_in_order(worker, name):
    holder = worker.acquire(name, ttl=60)
    served: list[int] = []

    def wait(number: int) -> None:
        lease = worker.acquire(name, ttl=60, wait=30)
        served.append(number)
        lease.release()

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(3)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        eventually(lambda number=number: worker.inspect(name).waiters == number)
    holder.release()
    for thread in threads:
        thread.join()
    assert served == [0, 1, 2]


def test_a_wait_that_times_out(worker, name):
    worker.acquire(name, ttl=30)
    with pytest.raises(octo.LockTimeout):
        worker.acquire(name, wait=0.5)


def test_many_at_once(worker, boss, name):
    names = [f"{name}/{number}" for number in range(5)]
    leases = worker.acquire_all(names, ttl=30)
    assert [lease.name for lease in leases] == names
    with pytest.raises(octo.LockHeld) as refused:
        worker.acquire_all([f"{name}/new", names[0]])
    assert [blocker.name for blocker in refused.value.blocked_by] == [names[0]]
    boss.force_release(names[1], reason="gone", fencing_token=leases[1].fencing_token)
    assert worker.renew_all(leases[:3]) == [leases[1]]
    assert worker.release_all(leases) == [leases[1]]
    with worker.acquire_all(names, ttl=30):
        assert len(list(worker.locks(prefix=f"{name}/"))) == 5
    assert not list(worker.locks(prefix=f"{name}/"))
    assert worker.claim_next([f"{name}/a", f"{name}/b"]).name == f"{name}/a"
    assert worker.claim_next([f"{name}/a", f"{name}/b"]).name == f"{name}/b"
    with pytest.raises(octo.LockHeld):
        worker.claim_next([f"{name}/a", f"{name}/b"])


def test_force_release(worker, boss, name):
    lease = worker.acquire(name, ttl=30, owner="a")
    with pytest.raises(octo.Forbidden):
        worker.force_release(name, reason="gone")
    with pytest.raises(octo.Conflict):
        boss.force_release(name, reason="gone", fencing_token=1)
    assert boss.force_release(name, reason="gone").owner == "a"
    with pytest.raises(octo.LeaseNotCurrent):
        boss.force_release(name, reason="gone")
    with pytest.raises(octo.LeaseLost):
        lease.renew()
    kinds = [(event["kind"], event["reason"]) for event in boss.history(name)]
    assert kinds == [("force_released", "gone"), ("acquired", None)]


def test_a_lease_belongs_to_its_token(worker, boss, name):
    lease = worker.acquire(name, ttl=30)
    with pytest.raises(octo.LeaseNotCurrent):
        boss.renew(name, lease.lease_id)
    with pytest.raises(octo.LeaseNotCurrent):
        boss.release(name, lease.lease_id)
    worker.release(name, lease.lease_id)


def test_sessions(worker, boss, name):
    with worker.session(ttl=10, owner="agent") as session:
        lease = session.acquire(f"{name}-1", ttl=60)
        assert session.acquire(f"{name}-1", ttl=60).fencing_token == lease.fencing_token
        session.acquire(f"{name}-2", ttl=60, ephemeral=False)
        info = worker.inspect_session(session.session_id)
        assert (info.owner, info.active) == ("agent", True)
        assert session.session_id in [one.session_id for one in worker.sessions()]
        with pytest.raises(octo.NotFound):
            boss.keepalive_session(session.session_id)
    assert worker.inspect(f"{name}-1").status == "free"
    assert worker.inspect(f"{name}-2").status == "held"
    with pytest.raises(octo.SessionExpired):
        worker.keepalive_session(session.session_id)


def test_watching(worker, name):
    events = worker.watch(prefix=name)
    holder = worker.acquire(f"{name}/a", ttl=30, owner="a")
    seen = [next(events)]
    holder.release()
    while seen[-1].event != "released":
        seen.append(next(events))
    events.close()
    assert {event.lock_name for event in seen} == {f"{name}/a"}
    assert seen[-1].fencing_token == holder.fencing_token
    assert seen[0].event in ("snapshot", "acquired")


def test_semaphores(worker, name):
    semaphore = worker.semaphore(name, slots=2, ttl=30)
    with semaphore as first, worker.semaphore(name, slots=2, ttl=30) as second:
        assert {first.name, second.name} == {f"{name}/slot-1", f"{name}/slot-2"}
        assert semaphore.locked()
        third = worker.semaphore(name, slots=2)
        assert third.acquire(blocking=False) is False
        with pytest.raises(octo.LockHeld), third:
            pass
    assert not semaphore.locked()
    assert third.acquire(timeout=1) is True
    third.release()


def test_a_lock_reads_as_other_locks_do(worker, name):
    lock = worker.lock(name, ttl=30)
    assert (lock.owned(), lock.locked(), lock.fencing_token) == (False, False, None)
    assert lock.acquire() is True
    other = worker.lock(name, ttl=30)
    assert other.acquire(blocking=False) is False
    assert other.acquire(timeout=0.2) is False
    assert (lock.owned(), other.owned(), other.locked()) == (True, False, True)
    lock.extend(60)
    assert lock.lease.remaining > 55
    with pytest.raises(RuntimeError):
        lock.acquire()
    lock.release()
    with pytest.raises(octo.LeaseLost):
        lock.release()
    assert worker.try_acquire(name) is not None
    assert worker.try_acquire(name) is None


def test_on_an_event_loop(target, name):
    async def main() -> list[str]:
        async with target.async_client() as client:
            lock = client.lock(name, ttl=30)
            assert await lock.acquire()
            assert await client.try_acquire(name) is None
            await lock.release()
            async with client.semaphore(name, slots=1) as lease:
                return [lease.name, *[one.name async for one in client.locks(prefix=name)]]

    assert asyncio.run(main()) == [f"{name}/slot-1"] * 2


def test_names_and_values_are_checked(worker, name):
    for wrong in ("", "..", "a//b", "a b", "x" * 257):
        if wrong:
            with pytest.raises(octo.InvalidLockName):
                worker.acquire(wrong)
    with pytest.raises(octo.InvalidTtl):
        worker.acquire(name, ttl=0)
    with pytest.raises(octo.InvalidInput):
        worker.request("POST", f"/locks/{name}/renew", {})
    with pytest.raises(octo.Forbidden):
        next(worker.history(name))


def test_overlapping_names_exclude_each_other(worker, no_namespaced_leases, name):
    top = f"path:{name}"
    one = worker.acquire(f"path:./{name}//a/", owner="anna")
    assert one.name == f"{top}/a"
    worker.acquire(f"{top}/b", owner="berta")
    with pytest.raises(octo.LockHeld) as refused:
        worker.acquire(top)
    assert refused.value.name == top
    assert [(one.name, one.owner) for one in refused.value.blocked_by] == [(f"{top}/a", "anna"), (f"{top}/b", "berta")]
    assert refused.value.blocked_by[0].fencing_token == one.fencing_token
    with pytest.raises(octo.LockHeld):
        worker.acquire("repo:all")
    with pytest.raises(octo.LockHeld):
        worker.acquire_all([f"{top}-old", f"{top}/a/deep"])
    assert worker.claim_next([top, f"{top}-old"]).name == f"{top}-old"
    with pytest.raises(octo.InvalidLockName):
        worker.acquire(f"{top}/../x")
    assert worker.inspect(f"path:/{name}/a").status == "held"
    worker.release(f"path:{name}/./a", one.lease_id)


def test_a_wide_name_is_not_overtaken(worker, name):
    narrow = worker.acquire(f"path:{name}/a", ttl=60)
    wide: list[octo.Lease] = []
    waiting = threading.Thread(target=lambda: wide.append(worker.acquire(f"path:{name}", wait=PATIENCE_SECONDS)))
    waiting.start()
    eventually(lambda: worker.inspect(f"path:{name}").waiters == 1)
    with pytest.raises(octo.LockHeld):
        worker.acquire(f"path:{name}/b")
    narrow.release()
    waiting.join()
    wide[0].release()


def test_a_check_tells_conflicts_and_what_is_missing(worker, boss, name):
    theirs = boss.acquire(f"path:{name}/src", owner="anna")
    with worker.session(ttl=30) as session:
        ours = worker.acquire(f"path:{name}/docs")
        session.acquire(f"path:{name}/tests")
        wanted = [f"path:{name}/{file}" for file in ("src/x", "docs/x", "tests/x", "free")]
        found = worker.check(wanted, lease_ids=[ours.lease_id], session_id=session.session_id)
        assert (found.decision, found.policy) == ("warn", "warn")
        assert [(one.name, [by.name for by in one.blocked_by]) for one in found.conflicts] == [
            (wanted[0], [theirs.name])
        ]
        assert found.missing == (wanted[0], wanted[3])
    assert worker.check([f"path:{name}/docs/x"], lease_ids=[ours.lease_id]).decision == "clear"
    with pytest.raises(octo.NotFound):
        worker.check([f"path:{name}"], session_id="00000000-0000-4000-8000-000000000000")


def test_time_passes_in_the_fake_server_when_a_test_says_so(name):
    server = FakeServer()
    with server.client() as client:
        lease = client.acquire(name, ttl=3600)
        server.advance(3601)
        assert client.inspect(name).status == "free"
        with pytest.raises(octo.LeaseLost):
            lease.renew()


def test_two_clients_of_one_fake_server_exclude_each_other(name):
    """Each has a thread of its own."""
    server, inside, most = FakeServer(), [], []

    def work(number: int) -> None:
        with server.client() as client:
            for _ in range(20):
                with client.lock(name, ttl=30, wait=PATIENCE_SECONDS):
                    inside.append(number)
                    most.append(len(inside))
                    inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 80


def test_a_session_must_be_open(worker, name):
    session = worker.session()
    with pytest.raises(RuntimeError, match="not open"):
        session.acquire(name)


SCRIPT: list[tuple[str, str, Any]] = [
    ("GET", "/locks/{name}", None),
    ("POST", "/locks/{name}/acquire", {"ttl_seconds": 60, "owner": "a", "metadata": "m"}),
    ("POST", "/locks/{name}/acquire", {"ttl_seconds": 60}),
    ("GET", "/locks/{name}", None),
    ("POST", "/locks/{name}/renew", {"lease_id": "{lease}"}),
    ("POST", "/locks/{name}/renew", {"lease_id": "00000000-0000-4000-8000-000000000000"}),
    ("POST", "/locks/{name}/renew", {}),
    ("POST", "/locks/{name}/renew", {"lease_id": "{lease}", "ttl_seconds": 0}),
    ("GET", "/locks?prefix={name}", None),
    ("POST", "/locks/renew-all", {"leases": [{"name": "{name}", "lease_id": "{lease}"}]}),
    ("POST", "/locks/acquire-all", {"names": ["{name}", "{name}-2"]}),
    ("POST", "/locks/claim-next", {"names": ["{name}"]}),
    ("POST", "/locks/{name}/force-release", {"reason": "r"}),
    ("POST", "/locks/{name}/release", {"lease_id": "{lease}"}),
    ("POST", "/locks/{name}/release", {"lease_id": "{lease}"}),
    ("POST", "/locks/acquire-all", {"names": ["{name}", "{name}-2"], "lock_delay_seconds": 60}),
    (
        "POST",
        "/locks/release-all",
        {"leases": [{"name": "{name}", "lease_id": "00000000-0000-4000-8000-000000000000"}]},
    ),
    ("POST", "/locks/a%20b/acquire", {}),
    ("POST", "/locks/{name}-3/acquire", {"ttl_seconds": "x"}),
    ("POST", "/locks/{name}-3/acquire", {"session_id": "00000000-0000-4000-8000-000000000000"}),
    ("POST", "/sessions", {"ttl_seconds": 10, "owner": "s"}),
    ("POST", "/sessions", {"ttl_seconds": 1}),
    ("POST", "/sessions", {"ttl_seconds": 1000}),
    ("POST", "/locks/{name}-4/acquire", {"ephemeral": True}),
    ("POST", "/locks/{name}-4/acquire", {"lock_delay_seconds": 61}),
    ("POST", "/locks/{name}-4/acquire", {"metadata": "xxxxxxxxxx" * 110}),
    ("POST", "/locks/{name}-4/acquire", {"acl": ["user:7"]}),
    ("POST", "/locks/{name}-4%2Frelease/acquire", {}),
    ("GET", "/locks/{name}-4%2Frelease", None),
    ("GET", "/sessions/00000000-0000-4000-8000-000000000000", None),
    ("GET", "/whoami", None),
    ("GET", "/no-such-thing", None),
    ("GET", "/locks/{name}/history", None),
]
# What differs between any two servers, or is said in words.
_VALUES = {"details", "error", "request_id", "holder_id", "name", "team", "space", "public_id", "token"}


def _normalized(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {field: _normalized(one, field) for field, one in value.items()}
    if isinstance(value, list):
        return [_normalized(one, key) for one in value]
    if value is not None and (key in _VALUES or key.endswith(("_at", "_ms", "_token", "_id"))):
        return f"<{key}>"
    return value


def _contains(answer: Any, expected: Any) -> bool:
    """The real server may say more."""
    if isinstance(expected, dict):
        return isinstance(answer, dict) and all(
            field in answer and _contains(answer[field], one) for field, one in expected.items()
        )
    if isinstance(expected, list):
        return len(answer) == len(expected) and all(map(_contains, answer, expected))
    return answer == expected


def test_both_servers_answer_alike(backend, name):
    """FakeServer says nothing that the real server does not say, and says it in the same form."""

    async def main() -> list[tuple[Any, ...]]:
        fake = FakeServer(tokens={"worker": ["locks:read", "locks:write"]})
        headers = {"Authorization": f"Bearer {backend.worker_token}"}
        differences = []
        async with (
            httpx.AsyncClient(base_url=backend.url, headers=headers) as real,
            httpx.AsyncClient(base_url=fake.url, headers={"Authorization": "Bearer worker"}, transport=fake) as other,
        ):
            leases = {real: "", other: ""}
            for method, path, body in SCRIPT:
                answers = {}
                for client, lease in list(leases.items()):
                    text = httpx.Request("POST", "http://x", json=body).content.decode() if body is not None else ""
                    text = text.replace("{name}", name).replace("{lease}", lease)
                    kind = {"Content-Type": "application/json"} if text else {}
                    url = path.replace("{name}", name)
                    answer = await client.request(method, url, content=text or None, headers=kind)
                    content = answer.json() if answer.content else None
                    if path.endswith("/acquire") and isinstance(content, dict) and "lease_id" in content:
                        leases[client] = content["lease_id"]
                    answers[client] = (answer.status_code, _normalized(content))
                status_and_body = answers[real]
                if status_and_body[0] != answers[other][0] or not _contains(status_and_body[1], answers[other][1]):
                    differences.append((method, path, body, answers[real], answers[other]))
        return differences

    differences = asyncio.run(main())
    assert not differences, "\n".join(map(str, differences))
