"""The same operations on an asynchronous connection, and what both executors do when the database goes away."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest
from django.db import connection, transaction

from locks.engine import requests
from locks.engine.execution import Unavailable, run, run_async
from locks.engine.operations import (
    acquire,
    acquire_all,
    claim_next,
    count_live,
    force_release,
    inspect,
    listing,
    release,
    renew,
)
from locks.models import Event
from locks.postgresql.connections import AsyncConnection
from tests import database
from tests.locks.engine.concurrent_session import MAX_WAIT, concurrent_session

pytestmark = pytest.mark.usefixtures("committed")


async def connect() -> AsyncConnection:
    conninfo = database.conninfo(connection.settings_dict["NAME"])
    return await AsyncConnection.connect(conninfo, autocommit=True)


def on_async_connection(work: Callable[[AsyncConnection], Awaitable]):
    async def run():
        async with await connect() as async_connection:
            return await work(async_connection)

    return asyncio.run(run())


def life_of_some_leases(digest: str):
    """Every operation once or more, as one generator of operations; it is sent the answer of each."""
    taken = yield acquire(
        [requests.Acquire(digest=digest, name=name, owner="o", metadata="m") for name in ("a", "b", "a")]
    )
    leases = {answer.name: answer.lease_id for answer in taken[:2]}
    batch = [requests.Renew(digest=digest, name=name, lease_id=lease_id) for name, lease_id in leases.items()]
    yield renew([*batch, requests.Renew(digest=digest, name="a", lease_id=uuid4())])
    yield inspect([requests.Inspect(digest=digest, name=name) for name in ("a", "never")])
    yield claim_next(requests.ClaimNext(digest=digest, names=["a", "b", "c"]))
    yield acquire_all(requests.AcquireAll(digest=digest, names=["e", "d"]))
    yield acquire_all(requests.AcquireAll(digest=digest, names=["f", "d"]))
    yield listing(requests.Listing(digest=digest))
    yield listing(requests.Listing(digest=digest, sort="expires_at"))
    yield force_release([requests.ForceRelease(digest=digest, name="a", reason="stuck")])
    yield release([requests.Release(digest=digest, name=name, lease_id=leases[name]) for name in ("b", "a", "b")])
    yield acquire([requests.Acquire(digest="ab" * 32, name="a")])
    yield count_live([1])


def fields_of(answer) -> list[tuple]:
    """What can be compared between two runs: everything but ids, tokens and times."""
    fields = ("n", "verdict", "name", "status", "owner", "metadata", "holder_id", "blocks", "allowed", "total")
    rows = answer if isinstance(answer, list) else [answer]
    return [tuple(getattr(row, field, None) for field in fields) for row in rows]


def blocking(digest: str) -> list:
    answers, script = [], life_of_some_leases(digest)
    operation = next(script)
    while True:
        answer = run(operation)
        answers.append(fields_of(answer))
        try:
            operation = script.send(answer)
        except StopIteration:
            return answers


async def asynchronous(async_connection: AsyncConnection, digest: str) -> list:
    answers, script = [], life_of_some_leases(digest)
    operation = next(script)
    while True:
        answer = await run_async(async_connection, operation)
        answers.append(fields_of(answer))
        try:
            operation = script.send(answer)
        except StopIteration:
            return answers


def test_both_executors_give_the_same_answers(engine):
    first = blocking(engine.digest)
    events = list(Event.objects.order_by("id").values_list("kind", "lock_name"))
    connection.cursor().execute("DELETE FROM octo_lock")
    assert on_async_connection(lambda async_connection: asynchronous(async_connection, engine.digest)) == first
    again = list(Event.objects.order_by("id").values_list("kind", "lock_name"))
    assert again == [*events, *[event for event in events if event[1] is not None]]


def test_two_async_connections_meet_at_a_new_name(engine):
    """The second waits for the first, is retried, and answers with the winner."""
    request = requests.Acquire(digest=engine.digest, name="deploy")

    async def second(async_connection):
        return await run_async(async_connection, acquire([request]))

    with concurrent_session() as other:
        with transaction.atomic():
            first = engine.acquire("deploy", owner="first")
            future = other.run_blocked(on_async_connection, second)
        (answer,) = future.result(MAX_WAIT)
    assert (answer.verdict, answer.owner, answer.fencing_token) == ("held", "first", first.fencing_token)


def test_an_async_connection_that_was_ended_is_unavailable(engine):
    async def lose_it(async_connection):
        async with await connect() as another:
            await another.execute("SELECT pg_terminate_backend(%s, 10000)", [async_connection.info.backend_pid])
        await run_async(async_connection, inspect([requests.Inspect(digest=engine.digest, name="a")]))

    with pytest.raises(Unavailable):
        on_async_connection(lose_it)


def test_an_async_connection_to_a_demoted_server_is_unavailable(engine):
    async def on_a_standby(async_connection):
        await async_connection.execute("SET default_transaction_read_only = on")
        await run_async(async_connection, acquire([requests.Acquire(digest=engine.digest, name="a")]))

    with pytest.raises(Unavailable):
        on_async_connection(on_a_standby)


def test_an_idle_connection_that_was_ended_is_replaced_unnoticed(engine):
    engine.acquire("a")
    with concurrent_session() as other:
        backend = connection.connection.info.backend_pid
        other.end(backend)
        assert engine.inspect("a").verdict == "held"
        assert connection.connection.info.backend_pid != backend


def test_a_connection_that_is_ended_during_a_statement_is_unavailable_and_the_next_works(engine):
    engine.release("a", engine.acquire("a").lease_id)
    with concurrent_session() as other:
        with transaction.atomic():
            engine.acquire("a")
            late = other.run_blocked(engine.acquire, "a")
            other.end(*other.waiting())
            with pytest.raises(Unavailable):
                late.result(MAX_WAIT)
        assert other.start(engine.acquire, "a").result(MAX_WAIT).verdict == "held"


def test_a_connection_to_a_demoted_server_is_closed_at_once(engine):
    connection.cursor().execute("SET default_transaction_read_only = on")
    with pytest.raises(Unavailable):
        engine.acquire("a")
    assert engine.acquire("a").verdict == "acquired"
