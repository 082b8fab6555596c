"""Records the latest run of each background task: time, duration, time in the queue, and result."""

import time
from typing import Any

import structlog
from celery import Task
from celery.signals import before_task_publish
from django.db import InterfaceError, OperationalError, connection
from django.db.models.functions import Now

from locks.engine.execution import Unavailable
from locks.models import TaskRun

_UNREACHABLE = (OperationalError, InterfaceError, Unavailable)
_log = structlog.stdlib.get_logger(__name__)


def _add_sent_at(headers: dict[str, Any], **_kwargs: Any) -> None:
    headers["sent_at"] = time.time()


before_task_publish.connect(_add_sent_at)


class RecordedTask(Task):  # type: ignore[misc]  # Celery has no types
    """The base of all tasks. The return value of a task is its outcome, in a few words.

    An unreachable database is not a failure of the task: it is logged, and the schedule runs the task again.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> str | None:
        sent_at = getattr(self.request, "sent_at", None)
        started = time.time()
        queued_ms = max(0, round((started - sent_at) * 1000)) if isinstance(sent_at, int | float) else None
        try:
            outcome: str | None = super().__call__(*args, **kwargs)
        except _UNREACHABLE as error:
            _log.warning("the database failed a task", task=self.name, error=str(error).strip())
            connection.close()
            return None
        except Exception as error:
            _record(self.name, started=started, queued_ms=queued_ms, outcome=type(error).__name__, failed=True)
            raise
        _record(self.name, started=started, queued_ms=queued_ms, outcome=outcome or "", failed=False)
        return outcome


def _record(task: str, *, started: float, queued_ms: int | None, outcome: str, failed: bool) -> None:
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
