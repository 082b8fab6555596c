"""The body of a delivery, and its headers with the signature."""

import hashlib
import hmac
from datetime import datetime

import msgspec

from locks.models import Delivery

TEST = "test"

_encode = msgspec.json.Encoder().encode


class DeliveredEvent(msgspec.Struct, kw_only=True):
    """Never contains a lease id. `test` has no lock."""

    event: str
    event_id: str
    webhook_id: str
    lock_name: str | None
    fencing_token: int | None
    owner: str | None
    metadata: str | None
    reason: str | None
    observed_at: datetime


def encode_body(delivery: Delivery) -> bytes:
    """The same bytes for each attempt."""
    return _encode(
        DeliveredEvent(
            event=delivery.kind,
            event_id=str(delivery.event_id),
            webhook_id=delivery.webhook.public_id,
            lock_name=delivery.lock_name,
            fencing_token=delivery.fencing_token,
            owner=delivery.owner,
            metadata=delivery.metadata,
            reason=delivery.reason,
            observed_at=delivery.observed_at,
        )
    )


def signature(secret: str, *, timestamp: int, body: bytes) -> str:
    return f"sha256={hmac.new(secret.encode(), b'%d.%s' % (timestamp, body), hashlib.sha256).hexdigest()}"


def sign(
    delivery: Delivery, *, secret: str, previous_secret: str | None, timestamp: int, body: bytes
) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Octoadmin-Webhook",
        "X-OctoStore-Event-Id": str(delivery.event_id),
        "X-OctoStore-Delivery-Id": str(delivery.public_id),
        "X-OctoStore-Timestamp": str(timestamp),
        "X-OctoStore-Signature": signature(secret, timestamp=timestamp, body=body),
    }
    if previous_secret is not None:
        headers["X-OctoStore-Signature-Previous"] = signature(previous_secret, timestamp=timestamp, body=body)
    return headers
