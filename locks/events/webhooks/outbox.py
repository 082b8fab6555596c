"""From the history to deliveries, and from one attempt of a delivery to the next."""

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from django.db.models import Q
from django.db.models.functions import Now

from locks.engine.operations import Operation
from locks.engine.statements import Statement
from locks.events.webhooks.sending import ATTEMPT_SECONDS, AttemptResult
from locks.models import Delivery

RETRY_HOURS = 24
FIRST_WAIT_SECONDS = 5.0
MAX_WAIT_SECONDS = 3600.0
MAX_REST_SECONDS = 60.0
# While an event has been tried no more often than this, later ones of the same name wait for it.
ATTEMPTS_IN_ORDER = 4
MAX_IN_HAND = 4
# An attempt is over long before.
CLAIM_SECONDS = 2 * ATTEMPT_SECONDS
MAX_PENDING = 10_000
FAN_OUT_AT_ONCE = 500
TRANSACTIONS_AT_ONCE = 50_000
DELIVERED_DAYS = 7
DEAD_DAYS = 30

_DIRECTORY = Path(__file__).parent / "sql"


class FannedOut(msgspec.Struct):
    made: int
    more: bool


class Claim(msgspec.Struct):
    delivery_id: int
    attempt: int


def _load(name: str, row: Any) -> "Statement[Any]":
    return Statement(name, (_DIRECTORY / f"{name}.sql").read_text(), row, prepared=False)


def _nothing(*_columns: Any) -> None:
    return None


_FAN_OUT = _load("fan_out", FannedOut)
_CLAIM = _load("claim", Claim)
_SETTLE = _load("record_attempt", _nothing)


def fan_out() -> Operation[int]:
    """Tells how many deliveries were made of what has happened."""
    made = 0
    fanned_out: FannedOut
    while True:
        (fanned_out,) = yield _FAN_OUT, [FAN_OUT_AT_ONCE, TRANSACTIONS_AT_ONCE, MAX_PENDING, RETRY_HOURS]
        made += fanned_out.made
        # The rest can wait for the next second: whoever asks has other things to do.
        if not fanned_out.more or made >= MAX_PENDING:
            return made


def claim() -> Operation[Claim | None]:
    rows: list[Claim] = yield _CLAIM, [CLAIM_SECONDS, MAX_IN_HAND, ATTEMPTS_IN_ORDER]
    return rows[0] if rows else None


def record_attempt(claimed: Claim, sent: AttemptResult) -> Operation[None]:
    wait = wait_seconds(claimed.attempt)
    yield (
        _SETTLE,
        [claimed.delivery_id, claimed.attempt, sent.is_delivered, sent.status, sent.error, sent.duration_ms, wait,
         MAX_REST_SECONDS],
    )  # fmt: skip


def wait_seconds(attempt: int) -> float:
    """Twice as long after each attempt, up to an hour; a fifth more or less, so that not all come back at once."""
    wait = min(FIRST_WAIT_SECONDS * (1 << min(attempt - 1, 30)), MAX_WAIT_SECONDS)
    return wait * random.uniform(0.8, 1.2)  # noqa: S311 -- nobody gains from guessing it


def purge_deliveries() -> int:
    delivered = Q(status="delivered", finished_at__lt=Now() - timedelta(days=DELIVERED_DAYS))
    dead = Q(status="dead", finished_at__lt=Now() - timedelta(days=DEAD_DAYS))
    removed, _by_model = Delivery.objects.filter(delivered | dead).delete()
    return removed
