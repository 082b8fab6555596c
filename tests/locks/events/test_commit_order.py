"""A reader that remembers a position misses nothing, whatever the order of ids and commits."""

import os
import random
import threading

import psycopg
import pytest

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire
from locks.events.history.commit_order import Position, current_position
from locks.events.stream.transitions import Transition, read_transitions
from tests.locks.engine.concurrent_session import MAX_WAIT, concurrent_session
from tests.locks.engine.conftest import Engine
from tests.locks.events.open_transactions import wait_for_open_transactions

pytestmark = pytest.mark.usefixtures("committed")

BEGINNING = Position(0, 0)
SPACE = 7
WRITE = (
    "INSERT INTO octo_event (kind, space_id, lock_name, actor_kind, actor_name, channel)"
    f" VALUES ('released', {SPACE}, %s, 'system', 'test', 'task') RETURNING id"
)


def connect() -> psycopg.Connection:
    return psycopg.connect(os.environ["DATABASE_URL"])


def read_events(position: Position, *, space: int = SPACE, limit: int = 1000) -> list[Transition]:
    return run(read_transitions(position, spaces=[space], limit=limit, max_transactions=2**40)).transitions


def read(position: Position) -> tuple[list[str | None], Position]:
    events = read_events(position)
    return [event.lock_name for event in events], events[-1].position if events else position


def test_an_event_that_commits_late_comes_after_the_position() -> None:
    with connect() as first, connect() as second:
        (low,) = first.execute(WRITE, ["began first"]).fetchone()
        (high,) = second.execute(WRITE, ["committed first"]).fetchone()
        assert low < high
        second.commit()
        names, position = read(BEGINNING)
        assert names == []
        first.commit()
    wait_for_open_transactions()
    names, position = read(position)
    assert names == ["began first", "committed first"]
    assert read(position) == ([], position)


def test_events_of_a_name_are_in_order_even_if_its_last_holder_began_first(worker_token, space) -> None:
    engine = Engine(worker_token)
    for name in ("a", "b", "c"):
        engine.release(name, engine.acquire(name).lease_id)
    wait_for_open_transactions()
    position = run(current_position())
    three = [requests.Acquire(digest=engine.digest, name=name, owner="slow") for name in ("a", "b", "c")]
    with concurrent_session() as other, connect() as busy:
        busy.execute("SELECT FROM octo_lock WHERE name = 'b' FOR UPDATE")
        slow = other.run_blocked(lambda: run(acquire(three)))
        engine.release("c", engine.acquire("c", owner="quick").lease_id)
        busy.rollback()
        assert [row.verdict for row in slow.result(MAX_WAIT)] == ["acquired"] * 3
    wait_for_open_transactions()
    events = read_events(position, space=space.pk)
    assert [(event.owner, event.kind) for event in events if event.lock_name == "c"] == [
        ("quick", "acquired"),
        ("quick", "released"),
        ("slow", "acquired"),
    ]


def test_a_rollback_delays_readers_only_until_it_ends() -> None:
    with connect() as first, connect() as second:
        first.execute(WRITE, ["never was"])
        second.execute(WRITE, ["was"])
        second.commit()
        first.rollback()
    wait_for_open_transactions()
    assert read(BEGINNING)[0] == ["was"]


def test_a_reader_that_starts_at_the_current_position_sees_only_later_events() -> None:
    with connect() as writer:
        writer.execute(WRITE, ["before"])
        writer.commit()
        wait_for_open_transactions()
        position = run(current_position())
        writer.execute(WRITE, ["after"])
        writer.commit()
    wait_for_open_transactions()
    assert read(position)[0] == ["after"]


def test_batches_of_a_large_transaction_continue_where_the_last_one_ended() -> None:
    with connect() as writer:
        for number in range(25):
            writer.execute(WRITE, [f"{number:02}"])
        writer.commit()
    wait_for_open_transactions()
    position, names = BEGINNING, []
    while events := read_events(position, limit=10):
        names += [event.lock_name for event in events]
        position = events[-1].position
    assert names == [f"{number:02}" for number in range(25)]


def test_a_reader_beside_many_writers_gets_every_event_once() -> None:
    writers = 6
    each = 60
    running = threading.Semaphore(0)

    def write(number: int) -> None:
        chance = random.Random(number)
        with connect() as connection:
            for turn in range(each):
                connection.execute(WRITE, [f"{number}-{turn}"])
                connection.execute("SELECT pg_sleep(%s)", [chance.random() / 100])
                connection.commit()
        running.release()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    names: list[str | None] = []
    position, ended = BEGINNING, 0
    while True:
        found, position = read(position)
        names += found
        if ended == writers:
            break
        while ended < writers and running.acquire(blocking=False):
            ended += 1
        if ended == writers:
            wait_for_open_transactions()
    for thread in threads:
        thread.join()
    assert len(names) == writers * each
    assert len(set(names)) == writers * each
