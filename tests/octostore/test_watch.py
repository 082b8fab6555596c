"""Watching a lock on OctoStore's terms: frames without names, the state first."""

from contextlib import closing

import pytest

from locks.models import Space
from tests.locks.events.event_stream import EventStream
from tests.servers import Api


@pytest.fixture
def watch(server, worker_token):
    opened = []

    def open_stream(path: str) -> EventStream:
        opened.append(EventStream(server.port, path, worker_token).connect())
        return opened[-1]

    yield open_stream
    for stream in opened:
        stream.close()


def test_frames_have_no_name_and_begin_with_the_state(watch, server, worker_token, space):
    Space.objects.filter(pk=space.pk).update(octostore_compatibility=True)
    events = watch("/locks/deploy/watch").events()
    first = next(events)
    assert (first.event, first.data["event"], first.data["lock_name"]) == ("message", "released", "deploy")
    with closing(Api(server.port, worker_token)) as api:
        lease = api.call("POST", "/locks/deploy/acquire", {"ttl_seconds": 60}).json()
    acquired = next(events)
    assert (acquired.event, acquired.data["event"]) == ("message", "acquired")
    assert acquired.data["fencing_token"] == lease["fencing_token"]
    late = next(watch("/locks/deploy/watch").events())
    assert (late.data["event"], late.data["fencing_token"]) == ("acquired", lease["fencing_token"])
    named = next(watch("/locks/deploy/watch?frames=named").events())
    assert named.event == "snapshot"


def test_on_our_own_terms_they_have_names_unless_asked(watch):
    assert next(watch("/locks/deploy/watch").events()).event == "snapshot"
    first = next(watch("/locks/deploy/watch?frames=octostore").events())
    assert (first.event, first.data["event"]) == ("message", "released")
    assert watch("/locks/deploy/watch?frames=other").status == 422
