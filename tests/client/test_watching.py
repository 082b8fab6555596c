"""A watch from Python: how things are, then every change; a break costs nothing."""

import pytest

import octo
from octo import Client


def test_a_lock_is_watched(client, name):
    events = client.watch(name)
    assert (first := next(events)).event == "snapshot"
    assert first.status == "free"
    with client.lock(name, ttl=30, owner="agent-7") as lease:
        acquired = next(events)
        assert (acquired.event, acquired.owner, acquired.fencing_token) == ("acquired", "agent-7", lease.fencing_token)
    assert next(events).event == "released"
    events.close()


def test_a_watch_that_breaks_goes_on_without_loss(backend, proxy, client, name):
    with Client(proxy.url, backend.worker_token) as watcher:
        events = watcher.watch(name)
        next(events)
        client.acquire(name, ttl=30).release()
        assert next(events).event == "acquired"
        proxy.cut()
        client.acquire(name, ttl=30).release()
        assert [next(events).event for _ in range(3)] == ["released", "acquired", "released"]
        events.close()


def test_a_later_watch_goes_on_after_an_event(client, name):
    lease = client.acquire(name, ttl=30)
    events = client.watch(name)
    next(events)
    lease.release()
    last = next(events)
    events.close()
    client.acquire(name, ttl=30).release()
    events = client.watch(name, after=last.id)
    assert [next(events).event for _ in range(2)] == ["acquired", "released"]
    events.close()


def test_what_cannot_be_watched_is_refused(backend):
    with Client(backend.url, "octo_000000000000_wrong") as stranger, pytest.raises(octo.AuthenticationFailed):
        next(stranger.watch("a"))
