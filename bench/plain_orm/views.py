"""Acquire and release, with the paths, bodies and responses that the load generator uses."""

import hashlib
import json
from datetime import timedelta
from uuid import UUID, uuid4

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.utils import timezone

from bench.plain_orm.models import Event, Lock, Token


def _token(request: HttpRequest) -> Token:
    plaintext = request.headers["Authorization"].removeprefix("Bearer ")
    return Token.objects.get(digest=hashlib.sha256(plaintext.encode()).hexdigest(), can_write=True)


def acquire(request: HttpRequest, name: str) -> JsonResponse:
    token = _token(request)
    options = json.loads(request.body)
    with transaction.atomic():
        lock, _created = Lock.objects.select_for_update().get_or_create(name=name)
        now = timezone.now()
        if lock.expires_at is not None and lock.expires_at > now:
            return JsonResponse({"status": "held", "owner": lock.owner, "expires_at": lock.expires_at})
        lock.lease_id = uuid4()
        lock.owner = token.name
        lock.metadata = options.get("metadata")
        lock.fencing_token += 1
        lock.acquired_at = now
        lock.expires_at = now + timedelta(seconds=options.get("ttl_seconds", 60))
        lock.save()
        Event.objects.create(kind="acquired", lock=lock, owner=lock.owner, fencing_token=lock.fencing_token)
    body = {"status": "acquired", "name": name, "lease_id": str(lock.lease_id), "fencing_token": lock.fencing_token}
    return JsonResponse(body, json_dumps_params={"separators": (",", ":")})


def release(request: HttpRequest, name: str) -> JsonResponse:
    token = _token(request)
    lease_id = UUID(json.loads(request.body)["lease_id"])
    with transaction.atomic():
        lock = Lock.objects.select_for_update().filter(name=name, lease_id=lease_id).first()
        if lock is None or lock.expires_at is None or lock.expires_at <= timezone.now():
            return JsonResponse({"error": "no such lease"}, status=404)
        Event.objects.create(kind="released", lock=lock, owner=token.name, fencing_token=lock.fencing_token)
        lock.lease_id = lock.owner = lock.metadata = lock.acquired_at = lock.expires_at = None
        lock.save()
    return JsonResponse(None, safe=False)
