"""Celery's tasks. Each is idempotent, safe to run twice at once and safe to miss."""

import socket

from celery import shared_task
from django.db.models.functions import Now

from locks.models import Heartbeat


@shared_task
def heartbeat() -> None:
    """Beat asks, a worker answers: the row says that both are alive."""
    Heartbeat.objects.update_or_create(name=f"worker@{socket.gethostname()}", defaults={"seen_at": Now()})
