"""The threads that send deliveries: not Celery's own, so that a receiver that hangs never blocks a task."""

import threading

import structlog
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models.functions import Now

from locks.engine.execution import Unavailable, run
from locks.events.webhooks.encryption import DecryptionFailed, decrypt
from locks.events.webhooks.outbox import Claim, claim, record_attempt
from locks.events.webhooks.payloads import encode_body, sign
from locks.events.webhooks.sending import AttemptResult, send
from locks.models import Delivery

POOL_SIZE = 16

_log = structlog.stdlib.get_logger(__name__)


class DeliveryPool:
    """Each thread sends one delivery after another while any is due, and ends when none is."""

    def __init__(self, max_size: int = POOL_SIZE) -> None:
        self._max_size = max_size
        self._lock = threading.Lock()
        self._size = 0

    def spawn(self, count: int) -> int:
        """Starts so many threads, as far as the pool has room. Returns how many run then."""
        with self._lock:
            new = max(0, min(count, self._max_size - self._size))
            self._size += new
            size = self._size
        for _ in range(new):
            # A daemon: when the worker process ends, its claims expire and another worker sends those deliveries.
            threading.Thread(target=self._run, name="delivery", daemon=True).start()
        return size

    def _run(self) -> None:
        try:
            while (claimed := run(claim())) is not None:
                deliver(claimed)
        except (Unavailable, DatabaseError) as error:
            _log.warning("a delivery lost its database connection", error=str(error).strip())
        except Exception:
            _log.exception("a delivery failed")
        finally:
            connection.close()
            with self._lock:
                self._size -= 1


def deliver(claimed: Claim) -> None:
    delivery = Delivery.objects.select_related("webhook").annotate(now=Now()).filter(pk=claimed.delivery_id).first()
    # Without a row, the webhook was deleted with its deliveries.
    if delivery is not None:
        run(record_attempt(claimed, _attempt(delivery)))


def _attempt(delivery: Delivery) -> AttemptResult:
    webhook, now = delivery.webhook, delivery.now  # type: ignore[attr-defined]
    try:
        secret = decrypt(webhook.secret)
        in_overlap = webhook.previous_secret_until is not None and webhook.previous_secret_until > now
        previous = decrypt(webhook.previous_secret) if in_overlap and webhook.previous_secret else None
    except DecryptionFailed:
        return AttemptResult(
            duration_ms=0, error="The secret cannot be decrypted: SECRET_KEY was changed. Rotate the secret."
        )
    body = encode_body(delivery)
    headers = sign(delivery, secret=secret, previous_secret=previous, timestamp=int(now.timestamp()), body=body)
    return send(webhook.url, body=body, headers=headers, allowed=settings.WEBHOOK_NETWORKS)


delivery_pool = DeliveryPool()
