"""Celery's tasks. Each is idempotent, safe to run twice at once and safe to miss."""

import socket
import time
from datetime import timedelta

from celery import shared_task
from django.conf import settings
from django.db.models.functions import Now

from locks.actions import brake, bulk_release, snooze
from locks.browser_sessions import SessionStore
from locks.dashboard.stuck import count_stuck
from locks.engine import upkeep
from locks.engine.execution import perform
from locks.history import retention as history_retention
from locks.history.rollup import rollup as roll_up
from locks.history.usual import forget_usual_holds, learn_usual_holds
from locks.models import Delivery, DeliveryStatus, Heartbeat, Webhook
from locks.runs import RecordedTask
from locks.webhooks.hands import HANDS, hands
from locks.webhooks.outbox import fan_out, forget_deliveries

IDLE_LOCK_DAYS = 30
SESSION_DAYS = 7
# A machine that was renamed or retired is not reported as missing for ever.
HEARTBEAT_DAYS = 7
# How long a bulk release works at a time: the sweep must get its turn on the same few threads.
TURN_SECONDS = 2


@shared_task(base=RecordedTask)
def heartbeat(beat: str | None = None) -> str:
    """Beat asks, a worker answers: the rows say that both are alive."""
    names = [f"worker@{socket.gethostname()}", *([f"beat@{beat}"] if beat else [])]
    Heartbeat.objects.bulk_create(
        [Heartbeat(name=name, seen_at=Now()) for name in names],
        update_conflicts=True, unique_fields=["name"], update_fields=["seen_at"],
    )  # fmt: skip
    return ", ".join(names)


@shared_task(base=RecordedTask)
def sweep() -> str:
    """Leases are over by the clock; this records how they ended and clears them."""
    sessions = perform(upkeep.sweep_sessions())
    expired = perform(upkeep.sweep())
    perform(upkeep.forget_waiters())
    perform(upkeep.recount_stale())
    return f"{expired} expired" + (f", {sessions} sessions ended" if sessions else "")


@shared_task(base=RecordedTask)
def deliveries() -> str:
    """Makes deliveries of what has happened, and sets hands to work on what is due. They are not Celery's own: this
    task is over at once, however long a receiver takes."""
    if not Webhook.objects.exists():
        return "no webhooks"
    made = perform(fan_out())
    due = Delivery.objects.filter(status=DeliveryStatus.PENDING, next_attempt_at__lte=Now())[:HANDS].count()
    return f"{made} made, {hands.lend(due)} at work"


@shared_task(base=RecordedTask)
def rollup() -> str:
    return f"{perform(roll_up())} events counted"


@shared_task(base=RecordedTask)
def release_batch(batch_id: int) -> str:
    """Takes its turn at a bulk release that was confirmed, and queues itself again while there is more to do."""
    end = time.monotonic() + TURN_SECONDS
    while bulk_release.release_some(batch_id):
        if time.monotonic() > end:
            release_batch.delay(batch_id)
            return f"batch {batch_id} goes on"
    return f"batch {batch_id} left"


@shared_task(base=RecordedTask)
def resume_releases() -> str:
    """What a killed worker or a lost message left behind."""
    batches = bulk_release.take_up_stalled()
    for batch_id in batches:
        release_batch.delay(batch_id)
    return f"{len(batches)} taken up"


@shared_task(base=RecordedTask)
def notice_stuck() -> str:
    """Learns what is usual for what has been held for a while, and counts what needs somebody."""
    learned = perform(learn_usual_holds())
    return f"{learned} holds learned, {count_stuck()} stuck"


@shared_task(base=RecordedTask)
def retention() -> str:
    missed = history_retention.make_partitions()
    dropped = history_retention.drop_partitions(days=settings.RETENTION_DAYS)
    history_retention.drop_statistics(days=settings.STATISTICS_DAYS)
    perform(upkeep.forget_sessions(days=SESSION_DAYS))
    SessionStore.clear_expired()
    brake.tidy_up()
    bulk_release.forget(days=settings.RETENTION_DAYS)
    snooze.forget_over()
    perform(forget_usual_holds())
    Heartbeat.objects.filter(seen_at__lt=Now() - timedelta(days=HEARTBEAT_DAYS)).delete()
    forget_deliveries()
    idle = perform(upkeep.forget_idle_locks(days=IDLE_LOCK_DAYS))
    said = [f"{idle} idle locks removed", f"{len(dropped)} months dropped"]
    return ", ".join(said + ([f"{missed} months could not be prepared"] if missed else []))
