"""The Celery application. Tasks are in locks/tasks.py; beat's timetable stands with them."""

import os

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "octoadmin.settings")

app = Celery("octoadmin")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
# For every thread: tasks are also sent from those of the server and the worker.
app.set_default()


def _keep_our_logs(**_kwargs: object) -> None:
    """Django has configured logging already; a receiver keeps Celery from doing it again."""


setup_logging.connect(_keep_our_logs)
