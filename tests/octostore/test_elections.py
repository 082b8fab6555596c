"""Leader elections without an account, as OctoStore's documents describe them."""

import asyncio
import gc
import json
import os
from contextlib import ExitStack, closing
from datetime import datetime
from typing import Any

import pytest
from django.db import connections
from django.test import Client as DjangoClient

from locks.api.election_limits import MAX_STREAMS, MAX_STREAMS_PER_CLIENT, ElectionLimits, election_limits
from locks.api.errors import ApiError
from locks.api.usage_flusher import usage_flusher
from locks.api.views import elections as views
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import force_release
from locks.events.stream.streaming import KEEPALIVE_SECONDS
from locks.models import Event, Space, Team, Token
from locks.services import elections
from locks.token_format import parse
from tests.conftest import issue
from tests.locks.engine.time_travel import pass_seconds
from tests.locks.events.event_stream import EventStream
from tests.octoadmin.asgi_client import Client
from tests.servers import running_server

ROOM = "shared-room"
KEY = {"Idempotency-Key": "3f8e4a4c6b5c4ca8"}


@pytest.fixture
def _elections_are_on(each_path, settings) -> None:
    settings.PUBLIC_ELECTIONS = True
    election_limits.reset()


@pytest.fixture
def ask(each_path, _elections_are_on, call):
    """Without a token."""

    def send(method, path, body=None, **headers):
        return call(method, f"/elections{path}", body, token=None, **headers)

    return send


def campaign(ask, candidate="worker-a", *, room=ROOM, headers=None, **fields):
    return ask("POST", f"/{room}/campaign", {"candidate_id": candidate, **fields}, **(headers or {}))


def code_of(response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def is_time(value) -> bool:
    return datetime.fromisoformat(value).tzinfo is not None


def test_a_room_is_created_without_an_account(ask):
    created = ask("POST", "")
    room = created.json()["election_id"]
    assert (created.status_code, len(room)) == (201, 32)
    assert created.json() == {
        "election_id": room,
        "campaign_path": f"/elections/{room}/campaign",
        "status_path": f"/elections/{room}",
        "watch_path": f"/elections/{room}/watch",
    }
    assert ask("POST", "").json()["election_id"] != room


def test_the_first_candidate_leads_and_the_others_follow(ask):
    led = campaign(ask, metadata="host=a")
    leads = led.json()
    assert (led.status_code, leads["status"], leads["election_id"]) == (200, "leader", ROOM)
    leader = leads["leader"]
    assert (leader["candidate_id"], leader["metadata"], type(leader["term"])) == ("worker-a", "host=a", int)
    assert is_time(leader["expires_at"])
    assert isinstance(leads["leader_token"], str)
    assert 0 < leads["renew_after_ms"] <= 15_000
    for candidate in ("worker-b", "worker-a"):
        follows = campaign(ask, candidate).json()
        assert (follows["status"], follows["election_id"], follows["leader"]) == ("follower", ROOM, leader)
        assert 0 < follows["retry_after_ms"] <= 30_000
        assert "leader_token" not in follows


def test_the_state_of_a_room_is_public_and_has_no_secret(ask):
    assert ask("GET", f"/{ROOM}").json() == {
        "election_id": ROOM, "status": "vacant", "leader": None, "retry_after_ms": 0,
    }  # fmt: skip
    leads = campaign(ask).json()
    state = ask("GET", f"/{ROOM}")
    assert (state.status_code, state.json()["status"], state.json()["leader"]) == (200, "leader", leads["leader"])
    assert 0 < state.json()["retry_after_ms"] <= 30_000
    assert leads["leader_token"] not in state.content.decode()


def test_renewing_keeps_the_term(ask):
    leads = campaign(ask, ttl_seconds=10, metadata="m").json()
    renewed = ask("POST", f"/{ROOM}/renew", {"leader_token": leads["leader_token"], "ttl_seconds": 300})
    assert (renewed.status_code, renewed.json()["status"]) == (200, "leader")
    assert renewed.json()["leader"] == {**leads["leader"], "expires_at": renewed.json()["leader"]["expires_at"]}
    assert renewed.json()["leader"]["expires_at"] > leads["leader"]["expires_at"]
    assert renewed.json()["leader_token"] == leads["leader_token"]
    assert renewed.json()["renew_after_ms"] > 100_000


def test_resigning_makes_the_room_vacant_and_the_next_term_is_higher(ask):
    leads = campaign(ask).json()
    resigned = ask("POST", f"/{ROOM}/resign", {"leader_token": leads["leader_token"]})
    assert (resigned.status_code, resigned.json()) == (
        200,
        {"election_id": ROOM, "status": "vacant", "previous_term": leads["leader"]["term"]},
    )
    assert ask("GET", f"/{ROOM}").json()["status"] == "vacant"
    following = campaign(ask, "worker-b").json()
    assert following["status"] == "leader"
    assert following["leader"]["term"] > leads["leader"]["term"]


def test_when_the_leader_dies_its_term_expires_and_its_token_is_worth_nothing(ask):
    dead = campaign(ask).json()
    pass_seconds(31)
    assert ask("GET", f"/{ROOM}").json()["status"] == "vacant"
    following = campaign(ask, "worker-b").json()
    assert following["leader"]["term"] > dead["leader"]["term"]
    for verb in ("renew", "resign"):
        assert code_of(ask("POST", f"/{ROOM}/{verb}", {"leader_token": dead["leader_token"]})) == (
            404,
            "lease_not_current",
        )
    assert ask("GET", f"/{ROOM}").json()["leader"] == following["leader"]


@pytest.mark.parametrize("verb", ["renew", "resign"])
@pytest.mark.parametrize("token", ["", "x", "00000000000000000000000000000000"])
def test_only_the_leaders_token_renews_and_resigns(ask, verb, token):
    campaign(ask)
    assert code_of(ask("POST", f"/{ROOM}/{verb}", {"leader_token": token})) == (404, "lease_not_current")
    elsewhere = campaign(ask, room="other-room").json()["leader_token"]
    assert code_of(ask("POST", f"/{ROOM}/{verb}", {"leader_token": elsewhere})) == (404, "lease_not_current")
    assert ask("GET", f"/{ROOM}").json()["leader"]["candidate_id"] == "worker-a"


def test_a_lost_winning_answer_is_found_again_with_its_key(ask):
    leads = campaign(ask, headers=KEY).json()
    again = campaign(ask, headers=KEY).json()
    assert (again["status"], again["leader_token"]) == ("leader", leads["leader_token"])
    assert again["leader"]["term"] == leads["leader"]["term"]
    assert code_of(campaign(ask, "worker-b", headers=KEY)) == (409, "conflict")
    assert campaign(ask).json()["status"] == "follower"


def test_a_key_that_could_be_guessed_is_refused(ask):
    assert code_of(campaign(ask, headers={"Idempotency-Key": "1"})) == (422, "invalid_input")


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"candidate_id": ""}, 400, "invalid_input"),
        ({"candidate_id": "a b"}, 400, "invalid_input"),
        ({"candidate_id": "a" * 65}, 400, "invalid_input"),
        ({"candidate_id": 7}, 422, "invalid_input"),
        ({"candidate_id": None}, 422, "invalid_input"),
        ({"ttl_seconds": 4}, 400, "invalid_ttl"),
        ({"ttl_seconds": 301}, 400, "invalid_ttl"),
        ({"ttl_seconds": "30"}, 422, "invalid_input"),
        ({"metadata": "x" * 1025}, 400, "invalid_input"),
        ({"metadata": "a\0"}, 422, "invalid_input"),
    ],
    ids=str,
)
def test_invalid_campaigns(ask, fields, status, code):
    refused = ask("POST", f"/{ROOM}/campaign", {"candidate_id": "worker-a", **fields})
    assert code_of(refused) == (status, code)
    assert ask("GET", f"/{ROOM}").json()["status"] == "vacant"


@pytest.mark.parametrize(("field", "value"), [("ttl_seconds", 5), ("ttl_seconds", 300), ("metadata", "x" * 1024)])
def test_values_at_their_bounds(ask, field, value):
    assert campaign(ask, "a" * 64, **{field: value}).json()["status"] == "leader"


@pytest.mark.parametrize("room", ["short", "a" * 65, "a.b.c.d.e", "a%20b%20c%20d", "r%C3%A9union"])
def test_invalid_rooms(ask, room):
    for method, path, body in (
        ("GET", "", None),
        ("GET", "/watch", None),
        ("POST", "/campaign", {"candidate_id": "a"}),
        ("POST", "/renew", {"leader_token": "x"}),
        ("POST", "/resign", {"leader_token": "x"}),
    ):
        assert code_of(ask(method, f"/{room}{path}", body)) == (400, "invalid_input")


@pytest.mark.usefixtures("each_path")
def test_they_are_off_unless_turned_on(call, operator_token):
    for token in (None, operator_token):
        for method, path, body in (
            ("POST", "", None),
            ("GET", f"/{ROOM}", None),
            ("GET", f"/{ROOM}/watch", None),
            ("POST", f"/{ROOM}/campaign", {"candidate_id": "a"}),
            ("POST", f"/{ROOM}/renew", {"leader_token": "x"}),
            ("POST", f"/{ROOM}/resign", {"leader_token": "x"}),
        ):
            assert code_of(call(method, f"/elections{path}", body, token=token)) == (404, "not_found")
    assert not Team.objects.filter(slug=elections.TEAM_SLUG).exists()


def test_creating_and_campaigning_are_limited_for_each_address_but_not_renewing(ask, monkeypatch):
    leads = campaign(ask).json()
    limits = ElectionLimits(requests_per_minute=2, processes=1)
    monkeypatch.setattr(views, "election_limits", limits)
    assert [ask("POST", "").status_code for _request in range(3)] == [201, 201, 429]
    refused = campaign(ask, "worker-b")
    assert code_of(refused) == (429, "rate_limited")
    assert int(refused["Retry-After"]) > 0
    assert refused.json()["retry_after_ms"] > 0
    assert ask("GET", f"/{ROOM}").status_code == 200
    for verb in ("renew", "resign"):
        assert ask("POST", f"/{ROOM}/{verb}", {"leader_token": leads["leader_token"]}).status_code == 200


def test_the_rate_of_all_addresses_together_is_limited():
    limits = ElectionLimits(requests_per_minute=2, processes=1)
    for number in range(20):
        limits.check_request(f"192.0.2.{number}")
    with pytest.raises(ApiError, match="together"):
        limits.check_request("192.0.2.99")


def test_streams_are_limited_for_each_address_and_in_all():
    limits = ElectionLimits(requests_per_minute=600, processes=1)
    of_one = [limits.admit_stream("192.0.2.1") for _stream in range(8)]
    with pytest.raises(ApiError) as refused:
        limits.admit_stream("192.0.2.1")
    assert (refused.value.status, refused.value.code) == (429, "rate_limited")
    of_one.pop().close()
    of_one.append(limits.admit_stream("192.0.2.1"))
    others = [limits.admit_stream(f"198.51.{number // 256}.{number % 256}") for number in range(1024 - 8)]
    with pytest.raises(ApiError):
        limits.admit_stream("203.0.113.1")
    del others
    assert limits.admit_stream("203.0.113.1") is not None


def test_the_number_of_rooms_with_a_leader_is_limited(ask):
    campaign(ask)
    Space.objects.filter(slug=elections.SPACE_SLUG).update(max_live_locks=1)
    usage_flusher.flush()
    refused = campaign(ask, room="another-room")
    assert code_of(refused) == (409, "capacity_exceeded")
    assert refused.json()["error"] == "Capacity exceeded"
    assert refused.json()["retry_after_ms"] > 0


def test_rooms_are_locks_that_no_token_reaches(ask, call, operator_token):
    campaign(ask)
    assert call("GET", f"/locks/{ROOM}", token=operator_token).json()["status"] == "free"
    assert call("GET", "/locks", token=operator_token).json()["locks"] == []
    token = Token.objects.get(name=elections.TOKEN_NAME)
    assert bytes(token.digest) == elections.digest()


def test_terms_are_in_the_history(ask):
    leads = campaign(ask).json()
    ask("POST", f"/{ROOM}/resign", {"leader_token": leads["leader_token"]})
    events = Event.objects.filter(lock_name=ROOM).order_by("id").values_list("kind", "owner", "fencing_token")
    term = leads["leader"]["term"]
    assert list(events) == [("acquired", "worker-a", term), ("released", "worker-a", term)]


def test_a_new_secret_key_and_a_revoked_token_do_not_end_elections(ask, settings):
    leads = campaign(ask).json()
    settings.SECRET_KEY = "another secret key of more than thirty-two characters"
    renewed = ask("POST", f"/{ROOM}/renew", {"leader_token": leads["leader_token"]})
    assert renewed.json()["leader"]["term"] == leads["leader"]["term"]
    Token.objects.filter(name=elections.TOKEN_NAME).update(revoked_at=datetime.fromisoformat("2026-01-01T00:00:00Z"))
    assert campaign(ask, room="another-room").json()["status"] == "leader"


def test_a_forced_end_with_a_delay_closes_the_room(ask):
    campaign(ask)
    space = elections.rooms()
    forcer = issue(space, "forcer", "locks:read", "locks:force")
    digest = parse(forcer).digest.hex()
    run(force_release([requests.ForceRelease(digest=digest, name=ROOM, reason="stuck", lock_delay_seconds=30)]))
    refused = campaign(ask, "worker-b")
    assert code_of(refused) == (503, "unavailable")
    assert 0 < refused.json()["retry_after_ms"] <= 30_000


class TestWatching:
    @pytest.fixture
    def server(self, committed):
        with running_server(os.environ["DATABASE_URL"], OCTO_PUBLIC_ELECTIONS="true") as running:
            yield running

    def test_the_state_comes_first_and_after_every_change(self, server):
        with ExitStack() as opened:
            api = opened.enter_context(closing(server.api()))
            stream = opened.enter_context(closing(EventStream(server.port, f"/elections/{ROOM}/watch", None).connect()))
            events = stream.events()
            first = next(events)
            assert (first.event, first.retry, first.id) == ("state", "1000", None)
            assert is_time(first.data.pop("observed_at"))
            assert first.data == {
                "schema_version": 1, "election_id": ROOM, "status": "vacant", "leader": None, "retry_after_ms": 0,
            }  # fmt: skip
            leads = api.call("POST", f"/elections/{ROOM}/campaign", {"candidate_id": "worker-a"}).json()
            led = next(events)
            assert (led.event, led.data["status"], led.data["leader"]) == ("state", "leader", leads["leader"])
            assert leads["leader_token"] not in json.dumps(led.data)
            assert led.id is None
            api.call("POST", f"/elections/{ROOM}/resign", {"leader_token": leads["leader_token"]})
            states = (event.data["status"] for event in events)
            assert next(state for state in states if state == "vacant")

    def test_a_ninth_stream_of_one_address_is_refused(self, server):
        with ExitStack() as opened:
            statuses = []
            for _stream in range(9):
                stream = EventStream(server.port, f"/elections/{ROOM}/watch", None).connect()
                opened.enter_context(closing(stream))
                statuses.append(stream.status)
            assert statuses == [200] * 8 + [429]

    # The connection of the streams' poller ends with the event loop of this test.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_a_stream_ends_after_its_life(self, committed, settings, monkeypatch):
        settings.PUBLIC_ELECTIONS = True
        monkeypatch.setattr(views, "LIFE_SECONDS", 0.01)

        def open_stream() -> Any:
            try:
                return DjangoClient().get(f"/elections/{ROOM}/watch")
            finally:
                connections.close_all()

        async def watch() -> str:
            client = Client()
            response = await asyncio.to_thread(open_stream)
            await response.stream(client.receive, client.send)
            assert client.reply.finished
            return b"".join(message["body"] for message in client.reply.messages).decode()

        text = asyncio.run(watch())
        gc.collect()
        assert text.startswith("retry: 1000\nevent: state\n")
        assert "maximum life" in text

    def test_the_limits_are_octostores(self):
        assert (views.LIFE_SECONDS, KEEPALIVE_SECONDS) == (900, 15)
        assert (MAX_STREAMS, MAX_STREAMS_PER_CLIENT) == (1024, 8)
