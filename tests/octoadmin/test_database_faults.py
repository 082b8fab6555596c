"""A database that stops answering, or that another server has replaced: no request hangs, and no answer is wrong."""

import threading
from collections.abc import Iterator

import pytest

from tests.clusters import Node, copy_of, create_space, hosts, primary, standby_of
from tests.locks.events.event_stream import EventStream
from tests.polling import until
from tests.servers import Response, RunningServer, running_server

pytestmark = pytest.mark.timeout(240)

TTL = {"ttl_seconds": 3600}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with primary() as running:
        yield running


@pytest.fixture(scope="module")
def token(node: Node) -> str:
    return create_space(node.url)


@pytest.fixture(scope="module")
def server(node: Node, token: str) -> Iterator[RunningServer]:
    with running_server(node.url, OCTO_DATABASE_SECONDS="2", OCTO_THREADS="2") as running:
        yield running


def is_unavailable(response: Response) -> bool:
    if response.status != 503:
        return False
    assert response.headers["Retry-After"]
    return True


def test_a_frozen_database_gives_503_and_ends_the_streams(node, token, server):
    """A request that hangs fails the test by the timeout of its client."""
    api = server.api(token)
    lease = api.call("POST", "/locks/deploy/acquire", TTL).json()
    watch = EventStream(server.port, "/locks/deploy/watch", token).connect()
    events = watch.events()
    assert next(events).event == "snapshot"
    # Threads, urgent threads and the batcher have open connections; some are in use, some are idle.
    for path in ("/locks", "/whoami", "/health", "/locks/deploy"):
        assert api.call("GET", path).status == 200
    node.freeze()
    try:
        assert list(events) == []
        assert watch.comments[-1].startswith("The database does not answer")
        refused = {
            path: is_unavailable(server.api(token).call("GET", path))
            for path in ("/locks", "/whoami", "/health", "/locks/deploy", "/locks/deploy/watch")
        }
        assert all(refused.values()), refused
        body = {"lease_id": lease["lease_id"]}
        assert is_unavailable(api.call("POST", "/locks/deploy/renew", body))
        assert is_unavailable(api.call("POST", "/locks/other/acquire", TTL | {"wait_seconds": 5}))
        assert is_unavailable(api.call("POST", "/sessions", {}))
    finally:
        node.thaw()
    until(lambda: api.call("GET", "/health").status == 200)
    assert until(lambda: api.call("POST", "/locks/deploy/renew", body).status == 200)
    resumed = watch.connect()
    assert resumed.status == 200
    assert api.call("POST", "/locks/deploy/release", body).status == 200
    assert next(event for event in resumed.events() if event.event == "released")
    resumed.close()


@pytest.mark.long
def test_threads_that_wait_for_a_frozen_database_are_free_for_others(node, token, server):
    """With two threads and twenty requests, all are answered, because later ones do not wait for a connection each."""
    assert server.api(token).call("GET", "/locks").status == 200
    node.freeze()
    try:
        statuses: list[int] = []

        def call() -> None:
            statuses.append(server.api(token).call("GET", "/locks").status)

        threads = [threading.Thread(target=call) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses == [503] * 20
    finally:
        node.thaw()
    until(lambda: server.api(token).call("GET", "/locks").status == 200)


def test_a_primary_that_was_replaced_denies_no_lease(node, token):
    """It is alive and accepts connections, but its synchronous standby has become another primary."""
    with (
        copy_of(node, "replaced") as old,
        standby_of(old, synchronous=True) as new,
        running_server(hosts(old, new), OCTO_DATABASE_SECONDS="2") as left_behind,
        running_server(hosts(new, old), OCTO_DATABASE_SECONDS="2") as moved,
    ):
        earlier = left_behind.api(token).call("POST", "/locks/earlier/acquire", TTL).json()
        new.promote()
        api = moved.api(token)
        until(lambda: api.call("POST", "/locks/probe/acquire", TTL).status == 200, "the new primary answers")
        later = api.call("POST", "/locks/later/acquire", TTL).json()
        released = api.call("POST", "/locks/earlier/release", {"lease_id": earlier["lease_id"]})
        assert released.status == 200
        # The old primary knows nothing of these two changes.
        stale = left_behind.api(token)
        for method, path, body in (
            ("POST", "/locks/later/renew", {"lease_id": later["lease_id"]}),
            ("POST", "/locks/later/release", {"lease_id": later["lease_id"]}),
            ("POST", "/locks/renew-all", {"leases": [{"name": "later", "lease_id": later["lease_id"]}]}),
            ("GET", "/locks/earlier", None),
            ("GET", "/locks", None),
            ("GET", "/health", None),
        ):
            assert is_unavailable(stale.call(method, path, body)), path
        old.stop()
        until(lambda: stale.call("GET", "/health").status == 200, "the server has found the new primary")
        renewed = stale.call("POST", "/locks/later/renew", {"lease_id": later["lease_id"]})
        assert renewed.status == 200
        assert stale.call("GET", "/locks/earlier").json()["status"] == "free"


def test_a_standby_answers_nothing(node, token):
    with (
        copy_of(node, "stopped") as first,
        standby_of(first, synchronous=False) as second,
        running_server(hosts(second, first)) as server,
    ):
        # The standby is the first of the hosts.
        assert server.api(token).call("POST", "/locks/deploy/acquire", TTL).json()["status"] == "acquired"
        assert first.execute("SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name ~ 'batching'") == [
            (True,)
        ]
        first.stop()
        for path in ("/locks/deploy", "/locks", "/whoami", "/health"):
            assert is_unavailable(server.api(token).call("GET", path)), path


def test_a_database_that_lacks_the_last_commits_replaces_the_primary(node, token):
    """Asynchronous replication: the standby uses transaction ids of lost events for others. Watchers learn of it, and
    fencing tokens rise all the same."""
    with (
        copy_of(node, "asynchronous") as first,
        standby_of(first, synchronous=False) as second,
        running_server(hosts(first, second), OCTO_DATABASE_SECONDS="2") as server,
    ):
        api = server.api(token)
        kept = api.call("POST", "/locks/kept/acquire", TTL).json()
        until(lambda: second.execute("SELECT 1 FROM octo_lock WHERE name = 'kept'"), "replication")
        second.stop()
        watch = EventStream(server.port, "/watch", token).connect()
        events = watch.events()
        assert next(events).event == "snapshot"
        lost = [api.call("POST", f"/locks/lost-{number}/acquire", TTL).json() for number in range(20)]
        assert len([next(events) for _ in lost]) == 20
        first.kill()
        assert list(events) == []
        second.start()
        second.promote()
        until(lambda: api.call("GET", "/health").status == 200, "the server has found the new primary")
        until(lambda: api.call("POST", "/locks/new/acquire", TTL).status == 200)
        resumed = watch.connect()
        events = resumed.events()
        reset, snapshot = next(events), next(events)
        assert (reset.event, reset.id) == ("reset", None)
        names = {lock["name"] for lock in snapshot.data["locks"]}
        assert {name for name in names if name.startswith(("kept", "new", "lost"))} == {"kept", "new"}
        # From there on nothing is missed.
        released = api.call("POST", "/locks/kept/release", {"lease_id": kept["lease_id"]})
        assert released.status == 200
        assert next(event for event in events if event.event == "released").data["lock_name"] == "kept"
        resumed.close()
        # The acknowledged leases are lost, and the same names are granted again: with higher fencing tokens.
        for lease in (*lost, kept):
            again = api.call("POST", f"/locks/{lease['name']}/acquire", TTL).json()
            assert again["status"] == "acquired"
            assert again["fencing_token"] > lease["fencing_token"]
