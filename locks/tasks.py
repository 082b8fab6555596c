"""Celery's tasks. Each is idempotent, safe to run twice at once and safe to miss."""

import socket
import time
from datetime import timedelta

from celery import shared_task
from django.conf import settings
from django.db.models.functions import Now

from locks.browser_sessions import SessionStore
from locks.engine import maintenance
from locks.engine.execution import run
from locks.events.history import retention as history_retention
from locks.events.history.hold_baselines import compute_hold_baselines, purge_hold_baselines
from locks.events.history.rollup import rollup as roll_up
from locks.events.webhooks.delivery_pool import POOL_SIZE, delivery_pool
from locks.events.webhooks.outbox import fan_out, purge_deliveries
from locks.models import Delivery, DeliveryStatus, Heartbeat, Webhook
from locks.services import bulk_release, login_throttle, snooze
from locks.services.stuck import count_stuck
from locks.task_recording import RecordedTask

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
    sessions = run(maintenance.sweep_sessions())
    expired = run(maintenance.sweep())
    run(maintenance.purge_waiters())
    run(maintenance.recount_stale())
    return f"{expired} expired" + (f", {sessions} sessions ended" if sessions else "")


@shared_task(base=RecordedTask)
def deliveries() -> str:
    """Makes deliveries of what has happened, and sets delivery_pool to work on what is due. They are not Celery's own: this
    task is over at once, however long a receiver takes."""
    if not Webhook.objects.exists():
        return "no webhooks"
    made = run(fan_out())
    due = Delivery.objects.filter(status=DeliveryStatus.PENDING, next_attempt_at__lte=Now())[:POOL_SIZE].count()
    return f"{made} made, {delivery_pool.lend(due)} at work"


@shared_task(base=RecordedTask)
def rollup() -> str:
    return f"{run(roll_up())} events counted"


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
    batches = bulk_release.requeue_stalled()
    for batch_id in batches:
        release_batch.delay(batch_id)
    return f"{len(batches)} taken up"


@shared_task(base=RecordedTask)
def notice_stuck() -> str:
    """Learns what is usual for what has been held for a while, and counts what needs somebody."""
    learned = run(compute_hold_baselines())
    return f"{learned} holds learned, {count_stuck()} stuck"


@shared_task(base=RecordedTask)
def retention() -> str:
    missed = history_retention.make_partitions()
    dropped = history_retention.drop_partitions(days=settings.RETENTION_DAYS)
    history_retention.drop_statistics(days=settings.STATISTICS_DAYS)
    run(maintenance.purge_sessions(days=SESSION_DAYS))
    SessionStore.clear_expired()
    login_throttle.purge()
    bulk_release.purge(days=settings.RETENTION_DAYS)
    snooze.purge()
    run(purge_hold_baselines())
    Heartbeat.objects.filter(seen_at__lt=Now() - timedelta(days=HEARTBEAT_DAYS)).delete()
    purge_deliveries()
    idle = run(maintenance.purge_idle_locks(days=IDLE_LOCK_DAYS))
    said = [f"{idle} idle locks removed", f"{len(dropped)} months dropped"]
    return ", ".join(said + ([f"{missed} months could not be prepared"] if missed else []))
