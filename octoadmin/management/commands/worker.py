"""`octoadmin worker`: only the Celery worker with its scheduler."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from octoadmin.run import startup


class Command(BaseCommand):
    help = "Runs only the Celery worker with its scheduler, on a database that has been migrated."
    requires_system_checks = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        settings.QUEUE_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
        startup.continue_as("octoadmin.run.worker")
