"""The Celery worker of `up`: runs the tasks, with the scheduler (beat) in a thread."""

import logging
import os
import signal
import threading
import warnings
from typing import Any

import django
from celery import bootsteps
from celery.beat import Scheduler, Service
from celery.exceptions import SecurityWarning
from django.db import DatabaseError, connection

from octoadmin.celery import app

log = logging.getLogger(__name__)


class DatabaseScheduler(Scheduler):  # type: ignore[misc]
    """Continues where the last one stopped: the database knows when each task ran. Celery's own scheduler keeps that in
    a file, which a kill leaves damaged."""

    def setup_schedule(self) -> None:
        from locks.models import TaskRun

        super().setup_schedule()
        try:
            latest = dict(TaskRun.objects.values_list("name", "finished_at"))
        except DatabaseError:
            log.warning("The database does not answer: each task runs after its period")
            connection.close()
            return
        for name, entry in self.schedule.items():
            entry.last_run_at = latest.get(name, entry.last_run_at)


class Beat(bootsteps.StartStopStep):  # type: ignore[misc]
    """`celery worker --beat` forks a process for it, whose death would go unnoticed."""

    def __init__(self, worker: Any, **kwargs: Any) -> None:
        super().__init__(worker, **kwargs)
        # The service sleeps for so long before it notices a stop.
        self._service = Service(worker.app, max_interval=0.25, scheduler_cls=DatabaseScheduler, remote_control=False)
        self._thread = threading.Thread(target=self._run, name="beat", daemon=True)

    def _run(self) -> None:
        try:
            self._service.start()
        except Exception:
            log.exception("The scheduler failed, so the worker stops")
            os.kill(os.getpid(), signal.SIGTERM)

    def start(self, _worker: Any) -> None:
        self._thread.start()

    def stop(self, _worker: Any) -> None:
        self._service.stop()
        self._thread.join(timeout=1.5)


def _catch_up() -> None:
    """Records what expired while no worker ran; the worker itself takes a while to start."""
    django.setup(set_prefix=False)
    from locks.tasks import sweep

    try:
        sweep()
    except Exception:
        log.exception("The first sweep failed; the scheduler runs the next")


def main() -> None:
    # Tasks are JSON and come from us only, so the worker may run as root, as it often does in containers.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    for every_second in ("celery.app.trace", "celery.beat", "celery.worker.strategy"):
        logging.getLogger(every_second).setLevel(logging.WARNING)
    app.steps["worker"].add(Beat)
    _catch_up()
    app.worker_main(
        [
            "--quiet", "--skip-checks", "worker", "--pool", "threads", "--concurrency", "2",
            "--hostname", "octoadmin@%h", "--without-gossip", "--without-mingle", "--without-heartbeat",
        ]
    )  # fmt: skip


if __name__ == "__main__":
    main()
