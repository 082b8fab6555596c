"""The live stream: who may listen, what it says, and when it ends."""

import asyncio
import http.client
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import takewhile

import pytest
from django.contrib.auth import get_user
from django.test import RequestFactory

from locks.browser_sessions import SessionStore
from locks.dashboard import live
from locks.dashboard import live_viewers as viewing
from locks.dashboard.live import admit
from locks.dashboard.live_viewers import Viewer, ViewerAuthorization, Viewers
from locks.events.stream.poller import Poller
from locks.models import Space, User
from locks.services import members, spaces
from locks.services.audit import Actor
from tests.conftest import session_cookie
from tests.polling import async_until, until

PATH = "/ui/blue/main/live"


def cookie_of(user: User) -> str:
    return f"sessionid={session_cookie(user)}"


def viewer_of(user: User) -> Viewer:
    request = RequestFactory().get(PATH)
    request.session = SessionStore(session_cookie(user))
    request.user = get_user(request)
    return admit(request, team="blue", space="main")


@pytest.fixture
def listen(server):
    opened = []

    def open_stream(cookie: str = "", path: str = PATH) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        opened.append(connection)
        connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
        return connection.getresponse()

    def close() -> None:
        for connection in opened:
            connection.close()

    open_stream.close = close
    yield open_stream
    close()


def events(stream: http.client.HTTPResponse) -> Iterator[str]:
    """Fails if the stream ends without the event `gone`."""
    for line in stream:
        if line.startswith(b"event: "):
            yield line[7:].strip().decode()
    raise AssertionError("the stream has ended")


def test_a_member_gets_changes_and_heartbeats(listen, server, victor, space, worker_token):
    with closing(listen(cookie_of(victor))) as stream:
        assert (stream.status, stream.headers["Content-Type"]) == (200, "text/event-stream")
        heard = events(stream)
        assert next(heard) == "beat"
        # The first poll, which only remembers the present values, is over by then.
        time.sleep(1.5)
        api = server.api(worker_token)
        held = api.call("POST", "/locks/job/acquire", {"ttl_seconds": 60}).json()
        assert next(event for event in heard if event != "beat") == "changed"
        api.call("POST", "/locks/job/renew", {"lease_id": held["lease_id"]})
        assert next(event for event in heard if event != "beat") == "changed"
        # A later poll may have found another change.
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
        # Access is checked every second, and a beat is sent every five; on a slow machine one may come first.
        assert before.count("beat") <= 2


def test_others_find_nothing(listen, bob, space):
    assert listen().status == 404
    assert listen("sessionid=made-up").status == 404
    assert listen(cookie_of(bob)).status == 404
    assert listen(cookie_of(bob), "/ui/no/where/live").status == 404


def test_a_stream_is_checked_and_counted_like_every_request(listen, server, victor, space):
    def counted() -> float:
        scraped = server.api().call("GET", "/metrics").content
        series = rb'octoadmin_requests_total\{kind="stream",method="GET",status="2xx"\} (\S+)'
        return sum(map(float, re.findall(series, scraped)))

    cookie = cookie_of(victor)
    other_host = server.api().call("GET", PATH, Cookie=cookie, Host="other.example")
    assert (other_host.status, other_host.json()["code"]) == (400, "invalid_input")
    with closing(listen(cookie)) as stream:
        assert re.fullmatch(r"req_[0-9a-f]{32}", stream.headers["X-Request-Id"])
        assert stream.headers["X-Content-Type-Options"] == "nosniff"
        assert next(events(stream)) == "beat"
        before = counted()
    listen.close()
    # It is counted when it ends.
    until(lambda: counted() == before + 1)


def test_a_stream_needs_no_thread_and_no_connection_of_its_own(listen, server, victor, space):
    cookie = cookie_of(victor)
    streams = [listen(cookie) for _ in range(30)]
    assert {stream.status for stream in streams} == {200}
    assert server.api().call("GET", "/health").status == 200
    for stream in streams:
        stream.close()


@pytest.mark.parametrize("change", ["membership", "session", "password", "is_active"])
def test_a_user_who_loses_access_loses_the_stream(committed, victor, space, monkeypatch, change):
    monkeypatch.setattr(viewing, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(viewing, "RECHECK_SECONDS", 0.05)
    viewer = viewer_of(victor)

    async def watched() -> None:
        viewers = Viewers()
        source = Poller()
        source.register(viewers, ViewerAuthorization(viewers))
        viewers.add(viewer)
        source.ensure_running()
        await asyncio.sleep(0.5)
        assert not viewer.is_gone
        await asyncio.to_thread(lose)
        await async_until(lambda: viewer.is_gone)
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

    # On a thread of its own: where a browser test has run before, this one has a loop already.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, watched()).result()
    assert viewer.is_gone


@pytest.mark.django_db
def test_one_user_or_team_cannot_use_up_the_streams(visit, alice, victor, bob, space, red_space, monkeypatch):
    def status_for(user: User, path: str = PATH) -> int:
        return visit(user).get(path).status_code

    monkeypatch.setattr(live, "viewers", viewers := Viewers())
    monkeypatch.setattr(viewing, "MAX_VIEWERS_PER_USER", 2)
    monkeypatch.setattr(viewing, "MAX_VIEWERS_PER_TEAM", 3)
    Space.objects.create(team=space.team, slug="other", name="Other")
    open_tabs = [viewer_of(victor), viewer_of(victor)]
    for tab in open_tabs:
        viewers.add(tab)
    assert (status_for(victor), status_for(alice, "/ui/blue/other/live")) == (503, 200)
    viewers.add(viewer_of(alice))
    assert [status_for(alice, path) for path in (PATH, "/ui/blue/other/live")] == [503, 503]
    assert status_for(bob, "/ui/red/main/live") == 200
    viewers.remove(open_tabs[0])
    assert (status_for(victor), status_for(alice)) == (200, 200)
