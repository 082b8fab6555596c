"""Rules, and trouble for them to find."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from locks.models import Alert, Heartbeat, Space, Transport, Webhook
from locks.services.alerts.rules import RuleValues, create
from locks.services.audit import Actor
from locks.services.stuck import count_stuck
from locks.system_state.alerting import evaluate_alerts
from locks.system_state.counters import latest
from tests.locks.dashboard.conftest import Worker
from tests.locks.dashboard.test_now import age

Rule = Callable[..., Webhook]


@pytest.fixture
def worker(worker_token: str) -> Worker:
    return Worker(worker_token)


@pytest.fixture
def rule(space: Space) -> Rule:
    """rule(kinds=["stuck"]) is the webhook of a new rule; it sends at once unless told otherwise."""

    def make(**values) -> Webhook:
        defaults = {
            "name": "On call", "kinds": ["stuck"], "prefix": "", "transport": Transport.WEBHOOK,
            "destination": "https://hooks.example/in", "min_minutes": 0,
        }  # fmt: skip
        return create(actor=Actor.of_shell(), space=space, values=RuleValues(**{**defaults, **values}))[1]

    return make


@pytest.fixture
def stick(worker: Worker) -> Callable[[str], None]:
    """stick("job") takes a lock that is overdue, and so stuck."""

    def take(name: str) -> None:
        worker.takes(name, ttl_seconds=60)
        age(name, seconds=90)

    return take


@pytest.fixture
def healthy_background() -> None:
    beat(ago=timedelta(0))


def beat(*, ago: timedelta) -> None:
    Heartbeat.objects.all().delete()
    Heartbeat.objects.bulk_create(Heartbeat(name=name, seen_at=Now() - ago) for name in ("worker@one", "beat@one"))
    latest.clear()


def evaluate() -> None:
    """As the task does every fifteen seconds."""
    latest.clear()
    count_stuck()
    evaluate_alerts()


def clear() -> None:
    """As if what is gone had been gone for long enough to close its alert."""
    evaluate()
    Alert.objects.filter(absent_since__isnull=False).update(absent_since=Now() - timedelta(minutes=2))
    evaluate()


def messages(webhook: Webhook) -> list[tuple[str, list[str]]]:
    """Kind and subjects of each, in order."""
    return [(one.kind, [item["subject"] for item in one.content["items"]]) for one in webhook.deliveries.order_by("id")]


def events(*kinds: str) -> list[tuple[str, str | None]]:
    from locks.models import Event

    return list(Event.objects.filter(kind__in=kinds).order_by("id").values_list("kind", "lock_name"))
