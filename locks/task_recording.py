"""Notes the latest run of each background task: when, how long, how long it was queued, and what came of it."""

import time
from typing import Any

import structlog
from celery import Task
from celery.signals import before_task_publish
from django.db import InterfaceError, OperationalError, connection
from django.db.models.functions import Now

from locks.engine.execution import Unavailable
from locks.models import TaskRun

_OUT_OF_REACH = (OperationalError, InterfaceError, Unavailable)
_log = structlog.stdlib.get_logger(__name__)


def _stamp(headers: dict[str, Any], **_kwargs: Any) -> None:
    headers["sent_at"] = time.time()


before_task_publish.connect(_stamp)


class RecordedTask(Task):  # type: ignore[misc]
    """The base of all tasks. What a task returns is its outcome, in a few words.

    A database that cannot be reached is no failure of the task: it says so in a line and is run again by the timetable.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> str | None:
        sent_at = getattr(self.request, "sent_at", None)
        started = time.time()
        queued_ms = max(0, round((started - sent_at) * 1000)) if isinstance(sent_at, int | float) else None
        try:
            outcome: str | None = super().__call__(*args, **kwargs)
        except _OUT_OF_REACH as error:
            _log.warning("the database failed a task", task=self.name, error=str(error).strip())
            connection.close()
            return None
        except Exception as error:
            _note(self.name, started=started, queued_ms=queued_ms, outcome=type(error).__name__, failed=True)
            raise
        _note(self.name, started=started, queued_ms=queued_ms, outcome=outcome or "", failed=False)
        return outcome


def _note(task: str, *, started: float, queued_ms: int | None, outcome: str, failed: bool) -> None:
    run = TaskRun(
        name=task.rpartition(".")[2],
        finished_at=Now(),
        duration_ms=round((time.time() - started) * 1000),
        queued_ms=queued_ms,
        outcome=outcome,
        failed=failed,
    )
    fields = ["finished_at", "duration_ms", "queued_ms", "outcome", "failed"]
    TaskRun.objects.bulk_create([run], update_conflicts=True, unique_fields=["name"], update_fields=fields)
