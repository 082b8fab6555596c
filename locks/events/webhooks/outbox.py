"""Makes deliveries of new events, claims due ones, and records attempts."""

import random
from collections.abc import Sequence
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
MIN_RETRY_SECONDS = 5.0
MAX_RETRY_SECONDS = 3600.0
# A webhook whose attempts fail is not called at all for up to this long.
MAX_BACKOFF_SECONDS = 60.0
# Until an event has failed this often, later ones of the same name wait for it.
MAX_ATTEMPTS_IN_ORDER = 4
MAX_CLAIMS_PER_WEBHOOK = 4
# Half of one worker's threads.
MAX_CLAIMS_PER_SPACE = 8
# A receiver that takes longer gets one attempt at a time, as if it had failed.
SLOW_MS = 3_000
# Twice what an attempt takes at most, so a claim that has expired belongs to a worker that died.
CLAIM_SECONDS = 2 * ATTEMPT_SECONDS
MAX_PENDING = 10_000
FAN_OUT_BATCH_SIZE = 500
# A message of an alert rule lists so many; it says how many more there are.
MAX_LISTED = 20
MAX_TRANSACTIONS = 50_000
DELIVERED_RETENTION_DAYS = 7
DEAD_RETENTION_DAYS = 30

_DIRECTORY = Path(__file__).parent / "sql"


class FanOutResult(msgspec.Struct):
    created: int
    more: bool


class Claim(msgspec.Struct):
    delivery_id: int
    attempt: int


def _load(name: str, row: Any) -> "Statement[Any]":
    return Statement(name, (_DIRECTORY / f"{name}.sql").read_text(), row, prepared=False)


def _no_row(*_columns: Any) -> None:
    return None


_FAN_OUT = _load("fan_out", FanOutResult)
_CLAIM = _load("claim", Claim)
_RECORD_ATTEMPT = _load("record_attempt", _no_row)


def fan_out(*, alert_rules: bool = False, quiet: Sequence[int] = ()) -> Operation[int]:
    """For webhooks, or for alert rules except those in their quiet hours. Returns how many events they got."""
    created = 0
    result: FanOutResult
    while True:
        (result,) = yield (
            _FAN_OUT,
            [FAN_OUT_BATCH_SIZE, MAX_TRANSACTIONS, MAX_PENDING, RETRY_HOURS, alert_rules, list(quiet), MAX_LISTED],
        )
        created += result.created
        # Bounded, so that the task gets to sending; the next run, a second later, creates the rest.
        if not result.more or created >= MAX_PENDING:
            return created


def claim() -> Operation[Claim | None]:
    rows: list[Claim] = yield _CLAIM, [
        CLAIM_SECONDS, MAX_CLAIMS_PER_WEBHOOK, MAX_ATTEMPTS_IN_ORDER, MAX_CLAIMS_PER_SPACE,
    ]  # fmt: skip
    return rows[0] if rows else None


def record_attempt(claimed: Claim, result: AttemptResult) -> Operation[None]:
    yield (
        _RECORD_ATTEMPT,
        [
            claimed.delivery_id, claimed.attempt, result.is_delivered, result.status, result.error, result.duration_ms,
            retry_delay(claimed.attempt), MAX_BACKOFF_SECONDS, SLOW_MS,
        ],
    )  # fmt: skip


def retry_delay(attempt: int) -> float:
    """Doubles with each attempt, up to an hour; a fifth more or less, so that retries do not come all at once."""
    seconds = min(MIN_RETRY_SECONDS * (1 << min(attempt - 1, 30)), MAX_RETRY_SECONDS)
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311 -- needs no secrecy


def purge_deliveries() -> int:
    delivered = Q(status="delivered", finished_at__lt=Now() - timedelta(days=DELIVERED_RETENTION_DAYS))
    dead = Q(status="dead", finished_at__lt=Now() - timedelta(days=DEAD_RETENTION_DAYS))
    removed, _by_model = Delivery.objects.filter(delivered | dead).delete()
    return removed
