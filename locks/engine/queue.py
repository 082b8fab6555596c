"""Standing in line: what a server process does for the requests that wait there.

Three times make up how long a lock can stay with a waiter that has vanished with its server. The server is believed to
be there SILENT_SECONDS after its last sign; what it was handed just before that runs out after PICK_UP_SECONDS; then
the next in line is found by the look that its own server takes every BEAT_SECONDS, if nobody comes before. That is
0.9 + 0.7 + 0.2 = 1.8 seconds, which leaves 0.2 of the promised two for the statements. A living server may stall
for 0.7 seconds, however they fall: SILENT_SECONDS less a beat, or PICK_UP_SECONDS. Of many locks that one statement
hands on, each has a millisecond more for each of the others.
"""

from collections.abc import Sequence
from uuid import UUID

from locks.engine import requests, results, statements
from locks.engine.handover import dequeue, end_and_hand_over_names
from locks.engine.retry import Operation, encode

# The first two are written into end_and_hand_over.sql as well.
SILENT_SECONDS = 0.9
PICK_UP_SECONDS = 0.7
BEAT_SECONDS = 0.2


def enqueue(asked: Sequence[requests.Enqueue]) -> Operation[list[results.Enqueued]]:
    """A place for each. Where it is `again`, acquire has the answer."""
    for place, request in enumerate(asked):
        request.n = place
    return (yield statements.ENQUEUE, [encode(asked)])


def server_heartbeat(server_id: UUID) -> Operation[results.HeartbeatResult]:
    """Says that the server is there. Before the first request waits, and then again and again."""
    (row,) = yield statements.SERVER_HEARTBEAT, [server_id]
    return row  # type: ignore[no-any-return]


def claim_handovers(server_id: UUID) -> Operation[list[results.Handover]]:
    return (yield statements.CLAIM_HANDOVER, [server_id])


def hand_over_free_names(server_id: UUID) -> Operation[int]:
    """Hands on what has become free by the clock alone. The sweep does too, if there is one; this is sooner."""
    names = yield statements.FREE_NAMES_WITH_WAITERS, [server_id]
    return (yield from end_and_hand_over_names(names))


def waiters_of(server_id: UUID) -> Operation[list[int]]:
    return (yield statements.WAITERS_OF, [server_id])


def end_backends(process_ids: Sequence[int]) -> Operation[None]:
    """Of earlier connections for the same purpose, which did not answer."""
    yield statements.END_BACKENDS, [list(process_ids)]


def delete_server(server_id: UUID) -> Operation[None]:
    """Takes all its requests out of every line first; what they were handed is given on."""
    waiters = yield statements.WAITERS_OF, [server_id]
    yield from dequeue(waiters, server_id=server_id)
    yield statements.DELETE_SERVER, [server_id]
