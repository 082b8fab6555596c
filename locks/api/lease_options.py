"""Lease options: from the body and the Idempotency-Key of an API request to fields of an engine request."""

import hashlib
from typing import Any

import msgspec

from locks.api import schemas
from locks.api.acl import principals
from locks.api.errors import invalid_input
from locks.api.parsing import check_delay, check_text, check_ttl

MAX_KEY = 255


def lease_options(body: schemas.LeaseOptions, *, idempotency_key: str | None) -> dict[str, Any]:
    if body.ephemeral and body.session_id is None:
        raise invalid_input(400, "An ephemeral lease ends with its session: send session_id as well.")
    options: dict[str, Any] = {
        "ttl_seconds": check_ttl(body.ttl_seconds),
        "metadata": check_text("metadata", body.metadata),
        "owner": check_text("owner", body.owner),
        "lock_delay_seconds": check_delay(body.lock_delay_seconds) or 0,
        "session_id": body.session_id,
        "ephemeral": body.ephemeral,
    }
    if body.acl is not None:
        if not isinstance(body, schemas.AcquireBody) or body.wait_seconds:
            raise invalid_input(
                400, "acl can be set only by an acquire that does not wait, or by PUT /locks/{name}/acl."
            )
        options["acl"] = principals(body.acl)
    if idempotency_key is None:
        return options
    request = {**options, "ephemeral": body.ephemeral is not False}
    return {**options, **idempotency(idempotency_key, [request, getattr(body, "names", None)])}


def idempotency(key: str, request: Any) -> dict[str, str]:
    if not (0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable() and " " not in key):
        raise invalid_input(422, f"Idempotency-Key must be 1 to {MAX_KEY} printable ASCII characters without blanks.")
    return {
        "idempotency_digest": hashlib.sha256(key.encode()).hexdigest(),
        # Of the parsed request, so that the same request in other JSON has the same digest.
        "request_digest": hashlib.sha256(msgspec.json.encode(request)).hexdigest(),
    }
