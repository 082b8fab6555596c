"""How soon a child that died is restarted: the goal is to serve again within five seconds."""

from locks.queue import shared_connection
from octoadmin.batching import batcher
from octoadmin.run.supervisor import CHECK_SECONDS, MAX_DELAY_SECONDS, STABLE_SECONDS, Backoff

# Of the five seconds: the rest is left to the start of the server or of PostgreSQL.
MAX_WAITING_SECONDS = 0.5


def test_a_child_that_was_stable_is_restarted_at_once():
    backoff = Backoff()
    for died_at in (1_000.0, 1_000.0 + STABLE_SECONDS + 1):
        delay = backoff.next_delay(died_at)
        reconnecting = max(batcher.RECONNECT_BACKOFF, shared_connection.RECONNECT_BACKOFF)
        assert CHECK_SECONDS + delay + reconnecting <= MAX_WAITING_SECONDS


def test_a_child_that_keeps_dying_is_restarted_ever_later():
    backoff, now, delays = Backoff(), 1_000.0, []
    for _ in range(8):
        delays.append(backoff.next_delay(now))
        now = backoff.restart_at + STABLE_SECONDS / 2
    assert delays == [0, 1, 2, 4, 8, 16, MAX_DELAY_SECONDS, MAX_DELAY_SECONDS]
