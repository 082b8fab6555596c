"""Evaluates alerts in the server while no worker does, so that a missing worker is reported.

Several server processes may do this at the same time, and a worker that comes back too: the database keeps each message
from being created twice, and each delivery from being claimed twice.
"""

import threading
import time

import structlog
from django.db import DatabaseError, connection

from locks.engine.execution import Unavailable
from locks.events.webhooks.delivery_pool import delivery_pool
from locks.system_state.alerting import evaluate_alerts
from locks.system_state.counters import counters
from locks.system_state.health import Health, background_health

CHECK_SECONDS = 15.0
# After a start, the worker needs a moment for its first heartbeat.
START_SECONDS = 60.0

_log = structlog.stdlib.get_logger(__name__)


def check_worker() -> bool:
    """Returns whether this process has evaluated alerts instead of the worker."""
    if background_health(counters()) is not Health.ACTION_REQUIRED:
        return False
    evaluate_alerts()
    delivery_pool.start_due(max_threads=1)
    return True


def _run() -> None:
    time.sleep(START_SECONDS)
    while True:
        try:
            check_worker()
        except (Unavailable, DatabaseError) as error:
            _log.warning("the worker could not be checked", error=str(error).strip())
        except Exception:
            # If the thread ended, a missing worker would go unreported.
            _log.exception("the worker could not be checked")
        finally:
            connection.close()
        time.sleep(CHECK_SECONDS)


def start() -> None:
    threading.Thread(target=_run, name="worker-watch", daemon=True).start()
