"""The body of a delivery, and its headers with the signature."""

import hashlib
import hmac
from datetime import datetime

import msgspec

from locks.models import Delivery

TEST = "test"

_encode = msgspec.json.Encoder().encode


class DeliveredEvent(msgspec.Struct, kw_only=True):
    """Never contains a lease id. `test` and `reset` have no lock. OctoStore's receivers read `event`, `lock`,
    `fencing_token` and `timestamp`."""

    event: str
    lock: str | None
    timestamp: datetime
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
            lock=delivery.lock_name or None,
            timestamp=delivery.observed_at,
            event_id=str(delivery.event_id),
            webhook_id=delivery.webhook.public_id,
            lock_name=delivery.lock_name or None,
            fencing_token=delivery.fencing_token,
            owner=delivery.owner,
            metadata=delivery.metadata,
            reason=delivery.reason,
            observed_at=delivery.observed_at,
        )
    )


def headers_of(delivery: Delivery) -> dict[str, str]:
    """Of every request, signed or not. A message of an alert rule is about no single event."""
    event = {} if delivery.event_id is None else {"X-OctoStore-Event-Id": str(delivery.event_id)}
    return {
        "Content-Type": "application/json",
        "User-Agent": "Octoadmin-Webhook",
        **event,
        "X-OctoStore-Delivery-Id": str(delivery.public_id),
    }


def _hmac(secret: str, message: bytes) -> str:
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def sign(
    delivery: Delivery, *, secret: str, previous_secret: str | None, timestamp: int, body: bytes
) -> dict[str, str]:
    """OctoStore's signature covers the body alone. Ours covers the timestamp too, so a receiver can refuse replays;
    during the overlap of a rotation it has a second `v1`."""
    secrets = [secret] if previous_secret is None else [secret, previous_secret]
    timestamped = [f"v1={_hmac(one, b'%d.%s' % (timestamp, body))}" for one in secrets]
    headers = {
        **headers_of(delivery),
        "X-OctoStore-Timestamp": str(timestamp),
        "X-OctoStore-Signature": f"sha256={_hmac(secret, body)}",
        "X-Octo-Signature": ",".join([f"t={timestamp}", *timestamped]),
    }
    if previous_secret is not None:
        headers["X-OctoStore-Signature-Previous"] = f"sha256={_hmac(previous_secret, body)}"
    return headers
