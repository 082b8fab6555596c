"""Elections through the client and the command line."""

import asyncio
import json
import threading
from contextlib import nullcontext

import pytest

import octo
from octo.testing import FakeServer
from tests.client.command_line import CommandLine, eventually
from tests.client.guides import blocks
from tests.client.served_fake import served


@pytest.fixture
def fake() -> FakeServer:
    return FakeServer(tokens={})


@pytest.fixture(params=["real", "fake"])
def target(request, fake, backend) -> tuple[str, FakeServer | None]:
    return (backend.url, None) if request.param == "real" else (fake.url, fake)


@pytest.fixture
def voter(target):
    """Without a token."""
    url, transport = target
    with octo.Client(url, "", transport=transport, retry_for=5) as client:
        yield client


def test_one_of_the_candidates_leads(voter):
    room = voter.create_election()
    assert voter.inspect_election(room).status == "vacant"
    with voter.election(room, "west-1", ttl=30, metadata="port=1") as term:
        info = voter.inspect_election(room)
        assert (info.status, info.candidate_id, info.term, info.metadata) == (
            "leader", "west-1", term.fencing_token, "port=1",
        )  # fmt: skip
        with pytest.raises(octo.LockHeld) as refused:
            voter.campaign(room, "west-2")
        assert refused.value.held.owner == "west-1"
        assert not voter.election(room, "west-2").acquire(blocking=False)
        term.renew()
        assert term.owned()
    assert voter.inspect_election(room).status == "vacant"
    with voter.election(room, "west-2") as later:
        assert later.fencing_token > term.fencing_token


def test_a_candidate_waits_for_its_turn(voter):
    room = voter.create_election()
    first = voter.election(room, "first")
    assert first.acquire()
    assert first.locked()
    led = threading.Event()

    def follow() -> None:
        with voter.election(room, "second", wait=40):
            led.set()

    follower = threading.Thread(target=follow)
    follower.start()
    first.release()
    assert led.wait(40)
    follower.join()


def test_a_leader_that_is_deposed_notices(fake):
    with octo.Client(fake.url, "", transport=fake) as voter:
        election = voter.election(voter.create_election(), "west-1")
        assert election.acquire()
        fake.advance(31)
        with pytest.raises(octo.LeaseLost):
            election.extend()
        assert election.lease.lost
        assert not election.owned()


def test_watching(voter):
    room = voter.create_election()
    states = voter.watch_election(room)
    assert next(states).status == "vacant"
    with voter.election(room, "west-1"):
        assert next(states).candidate_id == "west-1"
    assert next(states).status == "vacant"
    states.close()


def test_on_an_event_loop(target):
    url, transport = target

    async def lead() -> tuple[str, int]:
        async with octo.AsyncClient(url, "", transport=transport) as client:
            room = await client.create_election()
            async with client.election(room, "west-1") as term:
                info = await client.inspect_election(room)
                return str(info.candidate_id), term.fencing_token - (info.term or 0)

    assert asyncio.run(lead()) == ("west-1", 0)


def test_a_token_is_needed_for_everything_else(voter):
    with pytest.raises(octo.AuthenticationRequired):
        voter.acquire("x")


@pytest.fixture
def line(target, tmp_path):
    url, fake = target
    with served(fake) if fake else nullcontext(url) as address:
        command_line = CommandLine({"OCTO_URL": address, "OCTO_TOKEN": ""}, tmp_path)
        yield command_line
        command_line.end_all()


def test_on_the_command_line(line, voter):
    room = line.run("election", "create").stdout.strip()
    assert line.run("election", "status", room).stdout == f"{room} is vacant\n"
    done = line.run(
        "election", "hold", room, "--candidate", "west-1", "--", "sh", "-c", "echo $OCTO_FENCING_TOKEN; exit 7"
    )
    assert done.returncode == 7, done.stderr
    assert int(done.stdout) == voter.campaign(room, "x").fencing_token - 1 or int(done.stdout) > 0
    told = line.json("election", "status", room)["election"]
    assert (told["status"], told["candidate_id"]) == ("leader", "x")
    assert line.run("election", "hold", room, "--wait", "1", "--", "true").returncode == 124


def test_holding_until_it_is_stopped(line, voter):
    room = voter.create_election()
    holder = line.start("election", "hold", room, "--candidate", "west-1", "--json")
    assert json.loads(holder.stdout.readline())["data"]["election"]["candidate_id"] == "west-1"
    assert voter.inspect_election(room).candidate_id == "west-1"
    holder.terminate()
    assert holder.wait(30) == 130
    eventually(lambda: voter.inspect_election(room).status == "vacant")


def test_the_guide(fake):
    (text,) = blocks("client.md", "python", section="Leaders")
    terms: list[int] = []
    with served(fake) as url:
        exec(text.replace("https://octo.example.com", url), {"room": "a-room-of-ours", "lead": terms.append})  # noqa: S102
    assert terms[0] > 0
