"""The threads that send deliveries: not Celery's own, so that a receiver that hangs never blocks a task."""

import threading
from typing import assert_never

import structlog
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models.functions import Now

from locks.engine.execution import Unavailable, run
from locks.events.webhooks.encryption import DecryptionFailed, decrypt
from locks.events.webhooks.mail import parse_recipients, send_mail
from locks.events.webhooks.messages import encode_for_slack, encode_for_teams, encode_for_webhook, message_of
from locks.events.webhooks.outbox import Claim, claim, record_attempt
from locks.events.webhooks.payloads import encode_body, headers_of, sign
from locks.events.webhooks.sending import AttemptResult, send
from locks.models import AlertRule, Delivery, Transport

POOL_SIZE = 16

_log = structlog.stdlib.get_logger(__name__)


class DeliveryPool:
    """Each thread sends one delivery after another while any is due, and ends when none is. It starts with a claim: a
    thread without one would open a database connection for nothing, and most of a space's deliveries that are due may
    have to wait for others of the same webhook or name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._size = 0

    def start_due(self, *, max_threads: int = POOL_SIZE) -> int:
        """Claims what is due and starts a thread for each, until so many run. Returns how many that are."""
        while self._size < max_threads and (claimed := run(claim())) is not None:
            with self._lock:
                self._size += 1
            # A daemon: when the worker process ends, its claims expire and another worker sends those deliveries.
            threading.Thread(target=self._run, args=(claimed,), name="delivery", daemon=True).start()
        return self._size

    def _run(self, claimed: Claim | None) -> None:
        try:
            while claimed is not None:
                deliver(claimed)
                claimed = run(claim())
        except (Unavailable, DatabaseError) as error:
            _log.warning("a delivery lost its database connection", error=str(error).strip())
        except Exception:
            _log.exception("a delivery failed")
        finally:
            connection.close()
            with self._lock:
                self._size -= 1


def deliver(claimed: Claim) -> None:
    deliveries = Delivery.objects.select_related("webhook__alert_rule", "webhook__space__team").annotate(now=Now())
    delivery = deliveries.filter(pk=claimed.delivery_id).first()
    # Without a row, the webhook was deleted with its deliveries.
    if delivery is not None:
        run(record_attempt(claimed, _attempt(delivery)))


def _attempt(delivery: Delivery) -> AttemptResult:
    rule: AlertRule | None = getattr(delivery.webhook, "alert_rule", None)
    try:
        if rule is None:
            return _send_signed(delivery, encode_body(delivery))
        message = message_of(delivery)
        match Transport(rule.transport):
            case Transport.WEBHOOK:
                return _send_signed(delivery, encode_for_webhook(delivery, message))
            case Transport.SLACK:
                return _send_to_secret_url(delivery, encode_for_slack(message))
            case Transport.TEAMS:
                return _send_to_secret_url(delivery, encode_for_teams(message))
            case Transport.EMAIL:
                recipients = parse_recipients(delivery.webhook.url)
                return send_mail(message, recipients=recipients, delivery_id=str(delivery.public_id))
            case never:
                assert_never(never)
    except DecryptionFailed:
        return AttemptResult(
            duration_ms=0, error="The secret cannot be decrypted: SECRET_KEY was changed. Rotate the secret."
        )
    except Exception:
        # Otherwise the delivery would be claimed again and again without a recorded attempt.
        _log.exception("webhook_attempt_failed", delivery=str(delivery.public_id))
        return AttemptResult(duration_ms=0, error="The message could not be prepared. The log has the cause.")


def _send_signed(delivery: Delivery, body: bytes) -> AttemptResult:
    webhook, now = delivery.webhook, delivery.now  # type: ignore[attr-defined]
    secret = decrypt(webhook.secret)
    in_overlap = webhook.previous_secret_until is not None and webhook.previous_secret_until > now
    previous = decrypt(webhook.previous_secret) if in_overlap and webhook.previous_secret else None
    headers = sign(delivery, secret=secret, previous_secret=previous, timestamp=int(now.timestamp()), body=body)
    return send(webhook.url, body=body, headers=headers, allowed=settings.WEBHOOK_NETWORKS)


def _send_to_secret_url(delivery: Delivery, body: bytes) -> AttemptResult:
    return send(
        decrypt(delivery.webhook.secret), body=body, headers=headers_of(delivery), allowed=settings.WEBHOOK_NETWORKS
    )


delivery_pool = DeliveryPool()
