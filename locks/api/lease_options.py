"""What a lease is to be like: from the body and the Idempotency-Key to the part of an engine request that says so."""

import hashlib
from typing import Any

import msgspec

from locks.api import schemas
from locks.api.errors import invalid_input
from locks.api.parsing import check_text, check_ttl

MAX_KEY = 255


def terms(body: schemas.LeaseOptions, *, idempotency_key: str | None) -> dict[str, Any]:
    asked = {
        "ttl_seconds": check_ttl(body.ttl_seconds),
        "metadata": check_text("metadata", body.metadata),
        "owner": check_text("owner", body.owner),
        "lock_delay_seconds": body.lock_delay_seconds or 0,
        "session_id": body.session_id,
        "ephemeral": body.ephemeral is not False,
    }
    if idempotency_key is None:
        return asked
    return {**asked, **_idempotency(idempotency_key, [asked, getattr(body, "names", None)])}


def _idempotency(key: str, meaning: Any) -> dict[str, str]:
    if not (0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable() and " " not in key):
        raise invalid_input(422, f"Idempotency-Key must be 1 to {MAX_KEY} printable ASCII characters.")
    return {
        "idempotency_digest": hashlib.sha256(key.encode()).hexdigest(),
        # Of what was understood, so that another spelling of the same is the same request.
        "request_digest": hashlib.sha256(msgspec.json.encode(meaning)).hexdigest(),
    }
