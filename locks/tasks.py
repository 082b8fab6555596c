"""Celery's tasks. Each is idempotent, safe to run twice at once and safe to miss."""

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
from locks.events.webhooks.delivery_pool import delivery_pool
from locks.events.webhooks.outbox import fan_out, purge_deliveries
from locks.models import Heartbeat, Webhook
from locks.runs import upkeep as runs_upkeep
from locks.services import (
    bulk_release,
    elections,
    freezes,
    login_throttle,
    release_requests,
    servers,
    snooze,
    token_clients,
)
from locks.services.alerts import evaluation as alerts
from locks.services.stuck import count_stuck
from locks.system_state.alerting import evaluate_alerts
from locks.system_state.statement_timeout import MAINTENANCE, statement_timeout
from locks.task_recording import RecordedTask

IDLE_LOCK_DAYS = 30
SESSION_DAYS = 7
# The heartbeat of a retired machine is dropped after this time.
HEARTBEAT_DAYS = 7
# A bulk release yields the worker after this time, so that the sweep is not delayed.
BULK_RELEASE_SECONDS = 2


@shared_task(base=RecordedTask)
def heartbeat(beat: str | None = None) -> str:
    """Sent by beat and run by a worker, so it shows that both are alive."""
    names = [f"worker@{settings.SERVER_NAME}", *([f"beat@{beat}"] if beat else [])]
    Heartbeat.objects.bulk_create(
        [Heartbeat(name=name, seen_at=Now()) for name in names],
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=["seen_at"],
    )
    return ", ".join(names)


@shared_task(base=RecordedTask)
def sweep() -> str:
    """Leases expire by the clock; this records it, and hands their locks to waiters."""
    sessions = run(maintenance.sweep_sessions())
    expired = run(maintenance.sweep())
    run(maintenance.purge_waiters())
    run(maintenance.recount_stale())
    changed = runs_upkeep.sweep()
    unfrozen = freezes.record_ends()
    outcome = [f"{expired} expired"]
    outcome += [f"{sessions} sessions ended"] if sessions else []
    outcome += [f"{changed} actors or runs ended"] if changed else []
    outcome += [f"{unfrozen} freezes ended"] if unfrozen else []
    return ", ".join(outcome)


@shared_task(base=RecordedTask)
def deliveries() -> str:
    """Creates deliveries of new events and starts threads that send what is due. They are not Celery's own, so this
    task ends at once, however long a receiver takes."""
    if not Webhook.objects.exists():
        return "no webhooks"
    created = run(fan_out())
    return f"{created} created, {delivery_pool.start_due()} threads sending"


@shared_task(base=RecordedTask)
def rollup() -> str:
    with statement_timeout(MAINTENANCE):
        events = run(roll_up())
        run(maintenance.count_storage())
        return f"{events} events counted"


@shared_task(base=RecordedTask)
def run_bulk_release(batch_id: int) -> str:
    """Works on a confirmed bulk release for BULK_RELEASE_SECONDS, and queues itself again if there is more to do."""
    end = time.monotonic() + BULK_RELEASE_SECONDS
    while bulk_release.release_next_chunk(batch_id):
        if time.monotonic() > end:
            run_bulk_release.delay(batch_id)
            return f"batch {batch_id} continues"
    return f"batch {batch_id} done"


@shared_task(base=RecordedTask)
def resume_bulk_releases() -> str:
    """Bulk releases whose worker was killed, or whose message was lost."""
    batches = bulk_release.requeue_stalled()
    for batch_id in batches:
        run_bulk_release.delay(batch_id)
    return f"{len(batches)} resumed"


@shared_task(base=RecordedTask)
def detect_stuck() -> str:
    """Computes hold baselines for locks that are held for long, counts stuck locks, and evaluates alerts."""
    with statement_timeout(MAINTENANCE):
        baselines = run(compute_hold_baselines())
        outcome = f"{baselines} hold baselines, {count_stuck()} stuck"
        evaluated = evaluate_alerts()
        return f"{outcome}; alerts: {evaluated.opened} opened, {evaluated.closed} closed, {evaluated.messages} sent"


@shared_task(base=RecordedTask)
def retention() -> str:
    with statement_timeout(MAINTENANCE):
        missed = history_retention.make_partitions()
        dropped = history_retention.drop_partitions(days=settings.RETENTION_DAYS)
        history_retention.drop_statistics(days=settings.STATISTICS_DAYS)
        run(maintenance.purge_sessions(days=SESSION_DAYS))
        SessionStore.clear_expired()
        login_throttle.purge()
        bulk_release.purge(days=settings.RETENTION_DAYS)
        snooze.purge()
        token_clients.purge(days=settings.RETENTION_DAYS)
        release_requests.purge()
        run(purge_hold_baselines())
        Heartbeat.objects.filter(seen_at__lt=Now() - timedelta(days=HEARTBEAT_DAYS)).delete()
        servers.purge(days=HEARTBEAT_DAYS)
        purge_deliveries()
        alerts.purge()
        runs_upkeep.purge(days=settings.RETENTION_DAYS)
        rooms = elections.rooms()
        idle = run(maintenance.purge_idle_locks(days=IDLE_LOCK_DAYS, short_lived_space=rooms.pk if rooms else None))
        outcome = [f"{idle} idle locks purged", f"{len(dropped)} months dropped"]
        return ", ".join(outcome + ([f"{missed} partitions could not be created"] if missed else []))
