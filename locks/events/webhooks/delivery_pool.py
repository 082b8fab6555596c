"""The delivery_pool that deliver: threads beside Celery's own, so that a receiver that hangs never holds up a task."""

import threading

import structlog
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models.functions import Now

from locks.engine.execution import Unavailable, run
from locks.events.webhooks.encryption import Unreadable, decrypt
from locks.events.webhooks.outbox import Claim, claim, record_attempt
from locks.events.webhooks.payloads import body_of, headers_of
from locks.events.webhooks.sending import AttemptResult, send
from locks.models import Delivery

POOL_SIZE = 12

_log = structlog.stdlib.get_logger(__name__)


class DeliveryPool:
    """Each takes one delivery after another while any is due, and is gone when there is none."""

    def __init__(self, most: int = POOL_SIZE) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._busy = 0

    def lend(self, wanted: int) -> int:
        """Sets as many to work as are wanted and idle; tells how many are busy then."""
        with self._lock:
            fresh = max(0, min(wanted, self._most - self._busy))
            self._busy += fresh
            busy = self._busy
        for _ in range(fresh):
            # A daemon: what it leaves undone when the worker ends, another takes up when its claim has run out.
            threading.Thread(target=self._work, name="delivery", daemon=True).start()
        return busy

    def _work(self) -> None:
        try:
            while (claimed := run(claim())) is not None:
                deliver(claimed)
        except (Unavailable, DatabaseError) as error:
            _log.warning("the database failed a delivery", error=str(error).strip())
        except Exception:
            _log.exception("a delivery failed")
        finally:
            connection.close()
            with self._lock:
                self._busy -= 1


def deliver(claimed: Claim) -> None:
    delivery = Delivery.objects.select_related("webhook").annotate(now=Now()).filter(pk=claimed.delivery_id).first()
    # The webhook was deleted meanwhile, and its deliveries with it.
    if delivery is not None:
        run(record_attempt(claimed, _attempt(delivery)))


def _attempt(delivery: Delivery) -> AttemptResult:
    webhook, now = delivery.webhook, delivery.now  # type: ignore[attr-defined]
    try:
        secret = decrypt(webhook.secret)
        overlaps = webhook.previous_secret_until is not None and webhook.previous_secret_until > now
        previous = decrypt(webhook.previous_secret) if overlaps and webhook.previous_secret else None
    except Unreadable:
        return AttemptResult(duration_ms=0, error="The secret cannot be read since SECRET_KEY was changed. Rotate it.")
    body = body_of(delivery)
    headers = headers_of(delivery, secret=secret, previous_secret=previous, timestamp=int(now.timestamp()), body=body)
    return send(webhook.url, body=body, headers=headers, allowed=settings.WEBHOOK_NETWORKS)


delivery_pool = DeliveryPool()
