"""Finds trouble that began or ended, and creates the messages of the rules that want it.

Safe to run twice at once and to miss: what is open is compared with what is there now, whenever that is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from django.db.models.functions import Now

from locks.engine.execution import run
from locks.events.webhooks.outbox import MAX_LISTED, RETRY_HOURS, fan_out
from locks.models import Alert, AlertRule, Delivery
from locks.services.alerts.quiet_hours import is_quiet
from locks.services.clock import now as database_time
from locks.services.sql_files import SqlFiles
from locks.services.stuck import Reason
from locks.token_rules import EXPIRES_SOON

# Trouble that comes back within this time is still the same occurrence.
CLEAR_SECONDS = 60
# Notices of one evaluation; the next one creates the rest.
MAX_NOTICES = 5_000
CLOSED_RETENTION_DAYS = 7
# Serialises evaluations, so that two of them do not update the same rows in another order and deadlock.
_EVALUATION_LOCK = 6_140_026

_fetch = SqlFiles(Path(__file__).parent / "sql").fetch


@dataclass(frozen=True, kw_only=True)
class UnhealthyPart:
    """A part of the system that needs action."""

    key: str
    description: str


@dataclass(frozen=True, kw_only=True)
class Observed:
    opened: int
    closed: int


@dataclass(frozen=True, kw_only=True)
class Notice:
    rule_id: int
    kind: str
    subject: str
    fencing_token: int | None
    owner: str | None
    reasons: list[str]
    due_at: datetime | None
    opened_at: datetime
    closed_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    opened: int
    closed: int
    messages: int


def evaluate(*, unhealthy: Sequence[UnhealthyPart]) -> Evaluated:
    """`unhealthy` is the verdict of the System page, the stuck locks are those of the Stuck page."""
    # Before the transaction: readers of the history stop at the oldest one that has written.
    quiet = _quiet_rules()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_EVALUATION_LOCK])
        parameters = {
            "token_days": EXPIRES_SOON.days, "clear_seconds": CLEAR_SECONDS,
            "unhealthy": [part.key for part in unhealthy], "descriptions": [part.description for part in unhealthy],
        }  # fmt: skip
        (observed,) = _fetch("observe", Observed, parameters)
        messages = _create_messages(_fetch("notify", Notice, {"quiet": quiet, "limit": MAX_NOTICES}))
    force_releases = run(fan_out(alert_rules=True, quiet=quiet))
    return Evaluated(opened=observed.opened, closed=observed.closed, messages=messages + bool(force_releases))


def _quiet_rules() -> list[int]:
    now = database_time()
    return [rule.pk for rule in AlertRule.objects.exclude(quiet_from=None) if is_quiet(rule, now)]


def _create_messages(notices: Sequence[Notice]) -> int:
    """One for each rule and kind, about all that is due."""
    messages = []
    for (rule_id, kind), group in groupby(notices, key=lambda notice: (notice.rule_id, notice.kind)):
        due = list(group)
        messages.append(
            Delivery(
                webhook_id=rule_id, kind=kind, lock_name="",
                content={"total": len(due), "items": [_item(notice) for notice in due[:MAX_LISTED]]},
                observed_at=Now(), next_attempt_at=Now(), deadline_at=Now() + timedelta(hours=RETRY_HOURS),
            )
        )  # fmt: skip
    Delivery.objects.bulk_create(messages)
    return len(messages)


def _item(notice: Notice) -> dict[str, Any]:
    match notice.kind:
        case "stuck":
            text = ", ".join(_reason_label(reason) for reason in notice.reasons)
        case "token_expiring":
            text = f"expires at {notice.due_at:%Y-%m-%d %H:%M} UTC"
        case "system_unhealthy":
            text = notice.owner or ""
        case _:
            text = f"since {notice.closed_at:%Y-%m-%d %H:%M} UTC"
    return {
        "subject": notice.subject, "fencing_token": notice.fencing_token, "text": text,
        "owner": None if notice.kind.startswith("system") else notice.owner,
        "since": notice.opened_at.isoformat(),
        **({"reasons": notice.reasons} if notice.kind == "stuck" else {}),
    }  # fmt: skip


def _reason_label(reason: str) -> str:
    return Reason(reason).label if reason in set(Reason) else reason.replace("_", " ")


def purge() -> None:
    Alert.objects.filter(closed_at__lt=Now() - timedelta(days=CLOSED_RETENTION_DAYS)).delete()
