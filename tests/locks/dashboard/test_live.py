"""The live stream: who may open it, what it sends, and when it ends."""

import asyncio
import http.client
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import takewhile

import pytest
from django.test import Client

from locks.dashboard import live_viewers
from locks.dashboard.live import _admit
from locks.dashboard.live_viewers import ViewerAuthorization, Viewers
from locks.events.stream.poller import Poller
from locks.models import Space, User
from locks.services import members, spaces
from locks.services.audit import Actor
from tests.octoadmin.asgi_client import request_scope

PATH = "/ui/blue/main/live"


def cookie_of(user: User) -> str:
    client = Client()
    client.force_login(user)
    return f"sessionid={client.cookies['sessionid'].value}"


@pytest.fixture
def listen(server):
    opened = []

    def open_stream(cookie: str = "", path: str = PATH) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        opened.append(connection)
        connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
        return connection.getresponse()

    yield open_stream
    for connection in opened:
        connection.close()


def events(stream: http.client.HTTPResponse) -> Iterator[str]:
    """Raises if the stream ends without saying so."""
    for line in stream:
        if line.startswith(b"event: "):
            yield line[7:].strip().decode()
    raise AssertionError("the stream has ended")


def test_a_member_gets_changes_and_beats(listen, server, victor, space, worker_token):
    with closing(listen(cookie_of(victor))) as stream:
        assert (stream.status, stream.headers["Content-Type"]) == (200, "text/event-stream")
        heard = events(stream)
        assert next(heard) == "beat"
        # The first poll is over by then.
        time.sleep(1.5)
        api = server.api(worker_token)
        held = api.call("POST", "/locks/job/acquire", {"ttl_seconds": 60}).json()
        assert next(event for event in heard if event != "beat") == "changed"
        api.call("POST", "/locks/job/renew", {"lease_id": held["lease_id"]})
        assert next(event for event in heard if event != "beat") == "changed"
        # The first poll may have been late, and counts as a change as well.
        assert next(event for event in heard if event != "changed") == "beat"


@pytest.mark.parametrize("lost", ["membership", "space"])
def test_a_removed_member_loses_the_stream_at_once(listen, alice, victor, space, blue, lost):
    with closing(listen(cookie_of(victor))) as stream:
        heard = events(stream)
        assert next(heard) == "beat"
        actor = Actor.of_user(alice)
        if lost == "membership":
            members.remove(actor=actor, by=alice, team=blue, member=victor)
        else:
            Space.objects.create(team=blue, slug="other", name="Other")
            spaces.archive(actor=actor, by=alice, space=space, release=False)
        before = list(takewhile(lambda event: event != "gone", heard))
        # Access is checked every second; on a slow machine a beat, sent every five, may come first.
        assert before.count("beat") <= 2


def test_others_get_404(listen, bob, space):
    assert listen().status == 404
    assert listen("sessionid=made-up").status == 404
    assert listen(cookie_of(bob)).status == 404
    assert listen(cookie_of(bob), "/ui/no/where/live").status == 404


def test_a_stream_needs_no_thread_and_no_connection_of_its_own(listen, server, victor, space):
    cookie = cookie_of(victor)
    streams = [listen(cookie) for _ in range(30)]
    assert {stream.status for stream in streams} == {200}
    assert server.api().call("GET", "/health").status == 200
    for stream in streams:
        stream.close()


@pytest.mark.parametrize("change", ["membership", "session", "password", "is_active"])
def test_a_user_without_access_loses_the_stream(committed, victor, space, monkeypatch, change):
    monkeypatch.setattr(live_viewers, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(live_viewers, "RECHECK_SECONDS", 0.05)
    scope = request_scope(PATH, headers=[(b"cookie", cookie_of(victor).encode())])
    viewer = _admit(scope)
    assert viewer is not None

    async def watched() -> None:
        viewers = Viewers()
        source = Poller()
        source.register(viewers, ViewerAuthorization(viewers))
        viewers.add(viewer)
        source.attend()
        await asyncio.sleep(0.5)
        assert not viewer.is_gone
        await asyncio.to_thread(lose)
        for _ in range(600):
            if viewer.is_gone:
                break
            await asyncio.sleep(0.05)
        viewers.remove(viewer)
        await asyncio.sleep(0.1)

    def lose() -> None:
        from django.db import connection

        from locks.models import BrowserSession

        match change:
            case "membership":
                victor.memberships.all().delete()
            case "session":
                BrowserSession.objects.all().delete()
            case "password":
                victor.set_password("another one entirely")
                victor.save()
            case _:
                victor.is_active = False
                victor.save()
        connection.close()

    # On its own thread: after a browser test this one has a running loop.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, watched()).result()
    assert viewer.is_gone
