"""The Celery application. Its tasks are in locks/tasks.py, its schedule in the settings."""

import os

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "octoadmin.settings")

app = Celery("octoadmin")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
# For every thread: `celery.current_app` is this application everywhere.
app.set_default()


def _keep_our_logs(**_kwargs: object) -> None:
    """Django has configured logging already; with a receiver Celery does not do it again."""


setup_logging.connect(_keep_our_logs)
